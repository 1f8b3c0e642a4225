-- What Argo CD shows of a Baseline. It agrees with kstatus, and so with Flux and `kubectl wait`: Degraded where kstatus says
-- Failed, Healthy or Suspended where it says Current. Suspended is what waits for a person: a pin, a pause, an upload.
-- Only what Lua's base library has: Argo CD opens no other for customizations.

local status = obj.status or {}
local met = {}
for _, condition in ipairs(status.conditions or {}) do
  if condition.status == "True" then
    met[condition.type] = condition
  end
end

if status.observedGeneration ~= obj.metadata.generation then
  return {
    status = "Progressing",
    message = "The operator has not acted on this version yet. If it lasts: anabranch doctor",
  }
end
if met.Stalled then
  return { status = "Degraded", message = met.Stalled.reason .. ": " .. met.Stalled.message }
end
if met.Reconciling then
  local for_a_person = { ArchiveMissing = true, ImportUnset = true, Suspended = true }
  return {
    status = for_a_person[met.Reconciling.reason] and "Suspended" or "Progressing",
    message = met.Reconciling.reason .. ": " .. met.Reconciling.message,
  }
end
if not met.Ready then
  return { status = "Progressing", message = "The operator has not said that it is ready." }
end

local message = met.Ready.message
for _, kind in ipairs({ "ConsolidationPaused", "ReviewGuardMissing", "ImportMissing", "ImportChanged" }) do
  if met[kind] then
    message = message .. " " .. kind .. ": " .. met[kind].message
  end
end
if (status.openConflicts or 0) > 0 then
  message = message .. " Conflicts that wait for a reviewer: " .. status.openConflicts .. " (anabranch job list --waiting)."
end
return { status = met.ConsolidationPaused and "Suspended" or "Healthy", message = message }
