#!/bin/bash
# Dynamo's front end and a worker as the one command that `frostline ablate` wants. Whatever ends it ends both.
#     examples/dynamo.sh PORT MODEL [COMMAND OF THE WORKER ...]
# The worker is the mocker, which needs no GPU, unless its command is given (`python -m dynamo.vllm --model ...`).
# Says "dynamo is ready" once the front end knows the model.
port=$1 model=$2
shift 2
DYN_FILE_KV=$(mktemp -d) || exit 1
# It advertises the machine's own address otherwise.
export DYN_FILE_KV DYN_TCP_RPC_HOST=127.0.0.1 DYN_TCP_RESPONSE_STREAM_HOST=127.0.0.1
export DYN_EVENT_PLANE_HOST=127.0.0.1 DYN_SYSTEM_HOST=127.0.0.1
planes=(--discovery-backend file --request-plane tcp --event-plane zmq)
worker=("$@")
[ $# -gt 0 ] || worker=(python -m dynamo.mocker --model-path "$model" --model-name model --speedup-ratio 10)

end() {
    trap - EXIT INT TERM
    kill -TERM "${pids[@]}" 2>/dev/null
    wait "${pids[@]}" 2>/dev/null
    rm -rf "$DYN_FILE_KV"
    exit "$1"
}
trap 'end 1' EXIT
trap 'end 0' INT TERM

# The chat processor is the front end's work in Python.
python -m dynamo.frontend --http-host 127.0.0.1 --http-port "$port" "${planes[@]}" --dyn-chat-processor vllm &
pids=($!)
"${worker[@]}" "${planes[@]}" &
pids+=($!)
until curl -sf "http://127.0.0.1:$port/v1/models" | grep -q '"id"'; do
    for pid in "${pids[@]}"; do kill -0 "$pid" 2>/dev/null || exit 1; done
    sleep 0.5
done
echo "dynamo is ready"
wait -n "${pids[@]}"
