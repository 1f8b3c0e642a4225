-- What Argo CD shows of a ConsolidationJob. It agrees with kstatus, and so with Flux and `kubectl wait`, but for one thing: a
-- job that waits for a reviewer, which kstatus takes for progress, is Suspended.
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
if met.AwaitingReview then
  return {
    status = "Suspended",
    message = "A reviewer must decide: anabranch job review " .. obj.metadata.name .. " -n " .. obj.metadata.namespace,
  }
end
if met.Reconciling then
  local message = met.Reconciling.reason .. ": " .. met.Reconciling.message
  if status.lastError then
    message = message .. " Attempt " .. (status.attempt or 0) .. " failed: " .. status.lastError
    if status.retryAt then
      message = message .. " It is tried again at " .. status.retryAt .. "."
    end
  end
  return { status = "Progressing", message = message }
end
if not met.Ready then
  return { status = "Progressing", message = "The operator has not said that it is ready." }
end
return { status = "Healthy", message = met.Ready.message }
