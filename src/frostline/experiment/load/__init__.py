"""An open-loop load client: it sends when its plan says, whatever the server does (docs/method: "Load")."""
