from anabranch.domain.sharing import Sharing


def reason(policy, **change):
    refusal = Sharing.parse(policy).refusal(**({"scope": "shared", "visibility": "shareable"} | change))
    return refusal and refusal[0]


def test_what_is_shareable_may_leave_in_any_scope_unless_the_policy_names_some():
    assert reason({}) is None
    assert reason({"scopes": ["shared"]}) is None
    assert reason({"scopes": ["team/build"]}) == "ScopeNotShared"


def test_private_changes_stay_unless_their_export_is_permitted():
    assert reason({}, visibility="private") == "ExportNotPermitted"
    assert reason({"export_private": True}, visibility="private") is None
    assert reason({"export_private": True, "scopes": ["team/build"]}, visibility="private") == "ScopeNotShared"
