"""People who log in elsewhere: ID tokens of an OpenID Connect issuer, read as the Kubernetes API server reads them."""

from anabranch.identity.oidc.issuer import Issuer
from anabranch.identity.oidc.people import People
from anabranch.identity.oidc.settings import OidcSettings

__all__ = ["Issuer", "OidcSettings", "People"]
