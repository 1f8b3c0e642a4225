-- What Argo CD shows of a Branch. It agrees with kstatus, and so with Flux and `kubectl wait`.
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
  return { status = "Progressing", message = met.Reconciling.reason .. ": " .. met.Reconciling.message }
end
if not met.Ready then
  return { status = "Progressing", message = "The operator has not said that it is ready." }
end
return { status = "Healthy", message = met.Ready.message }
