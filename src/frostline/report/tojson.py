"""The report as JSON. The schema is documented in ``docs/json.md``; its number changes with it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from frostline.analysis import Analysis, GenerationStats, ProcessReport
from frostline.report.censuses import censuses_json
from frostline.report.idle import ranks_json
from frostline.report.requests import requests_json
from frostline.report.words import verdict_of

SCHEMA = 1


def to_json(analysis: Analysis) -> dict[str, Any]:
    """Plain dicts and lists. Times in ns: instants on CLOCK_MONOTONIC, everything else a length."""
    return {
        "schema": SCHEMA,
        "session": str(analysis.path),
        "start": analysis.start,
        "stop": analysis.stop,
        "running": analysis.running,
        "records": analysis.records,
        "clock_error": analysis.clock_error,
        "options": asdict(analysis.options),
        "verdict": asdict(analysis.verdict),
        "advice": [asdict(one) for one in analysis.advice],
        "processes": [_process(process, analysis.options.long_floor) for process in analysis.processes],
        "ranks": ranks_json(analysis.ranks),
        "budgets": [asdict(one) for one in analysis.budgets],
        "missed": [asdict(one) for one in analysis.missed],
        "grouping": asdict(analysis.grouping),
        "doubts": [{**asdict(one), "touches": list(one.touches)} for one in analysis.doubts],
        "losses": [asdict(one) for one in analysis.losses],
        "runs": [asdict(run) for run in analysis.runs],
        "requests": [requests_json(one) for one in analysis.requests],
        "host": asdict(analysis.host) if analysis.host else None,
        "ready": (
            {"kind": analysis.ready[0], "at": analysis.ready[1], "detail": analysis.ready[2]}
            if analysis.ready
            else None
        ),
    }


def _process(process: ProcessReport, floor: int) -> dict[str, Any]:
    return {
        "name": process.name,
        "role": process.role,
        "pid": process.pid,
        "interpreter": process.interpreter,
        "session": process.session,
        "series": process.series.series,
        "parent": process.series.parent,
        "python": process.python,
        "command": list(process.command),
        "policy": process.policy,
        "start": process.start,
        "stop": process.stop,
        "closed": process.closed,
        "longest": process.longest,
        "longest_text": process.longest_text,
        "serving": process.serving,
        "serving_longest": process.serving_longest,
        "serving_longest_text": process.serving_longest_text,
        "held": asdict(process.held) if process.held else None,
        "held_ours": asdict(process.held_ours) if process.held_ours else None,
        "frozen": asdict(process.frozen),
        "paused": process.pause_total,
        "passes": len(process.series.passes),
        "spans": len(process.series.spans.get("start", ())),
        "lost_passes": process.lost_passes,
        "lost_spans": process.lost_spans,
        "generations": [_generation(g) for g in process.generations],
        "full_passes": [asdict(one) for one in process.full_passes],
        "forecast": asdict(process.forecast) if process.forecast else None,
        "rhythm": asdict(process.rhythm) if process.rhythm else None,
        "promotions": asdict(process.promotions) if process.promotions else None,
        **censuses_json(process),
        "call_sites": [asdict(one) for one in process.call_sites],
        "unseen_explicit": {"passes": process.unseen_explicit, "total": process.unseen_explicit_total},
        "threads": [asdict(one) for one in process.threads],
        "labels": [asdict(one) for one in process.labels],
        "slow_steps": [{**asdict(one), "verdict": verdict_of(one, floor)} for one in process.long_steps],
        "host": asdict(process.host) if process.host else None,
        "events": [asdict(one) for one in process.events],
        "at_attach": asdict(process.at_attach) if process.at_attach else None,
        "at_close": asdict(process.at_close) if process.at_close else None,
        "frozen_since_attach": process.frozen_since_attach,
        "boundary": process.boundary,
        "other_callbacks": list(process.other_callbacks),
        "wrapped": list(process.wrapped),
        "refused": list(process.refused),
    }


def _generation(stats: GenerationStats) -> dict[str, Any]:
    data = asdict(stats)
    data["yield"] = data.pop("yield_")
    return data
