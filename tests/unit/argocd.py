"""What Argo CD makes of an object by our health checks, run as it runs them.

Argo CD's Lua is 5.1. For a customization it opens the base and table libraries and some of `os`; `string` and `math`,
which every other Lua has, are not there, so a script that needs them fails in production alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lupa import lua51

if TYPE_CHECKING:
    from collections.abc import Mapping

CUSTOMIZATIONS = Path(__file__).parents[2] / "deploy/argocd/resource_customizations/anabranch.dev"
KINDS = ("Baseline", "Branch", "ConsolidationJob")
OPENED = {"_G", "_VERSION", "assert", "error", "getmetatable", "ipairs", "next", "pairs", "pcall", "rawequal", "rawget",
          "rawset", "select", "setmetatable", "table", "tonumber", "tostring", "type", "unpack", "xpcall"}  # fmt: skip


@dataclass(frozen=True)
class Health:
    """What is shown of an object."""

    status: str
    message: str


def health(found: Mapping[str, Any]) -> Health:
    """What Argo CD shows of an object as the API server has it, deletion apart, which it judges by itself."""
    lua = lua51.LuaRuntime(register_eval=False, register_builtins=False)
    lua.execute('getmetatable("").__index = nil')  # ("x"):rep(3) finds its way without the global, too
    known = lua.globals()
    for name in set(known) - OPENED:
        known[name] = None
    known.obj = lua.table_from(found, recursive=True)
    answer = dict(lua.execute((CUSTOMIZATIONS / found["kind"] / "health.lua").read_text(encoding="utf-8")))
    return Health(**answer)
