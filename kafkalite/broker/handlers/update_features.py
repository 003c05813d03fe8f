"""UpdateFeatures (57): finalize features of the cluster (KIP-584). There is none to finalize, as in Apache Kafka with ZooKeeper.

- 1 the kind of change instead of a flag, and validation only. Only the controller answers.
"""

from __future__ import annotations

from typing import Final

from kafkalite.broker.identity.authorizer import ALTER_CLUSTER
from kafkalite.broker.parts import HasControllerRole
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.controller.event_manager import NOT_CONTROLLER_MESSAGE
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey

_UPGRADE: Final = 1
_DOWNGRADES: Final = (2, 3)
"""Safe and unsafe."""


def update_features(
    parts: HasControllerRole, request: messages.UpdateFeaturesRequest, context: RequestContext
) -> messages.UpdateFeaturesResponse:
    """Refuse the update of each feature, with the reason."""
    m = messages.update_features_response
    if not parts.controller.is_active:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, NOT_CONTROLLER_MESSAGE)
    updates = {each.feature: each for each in reversed(request.feature_updates)}
    return m.UpdateFeaturesResponse(
        results=[
            m.UpdatableFeatureResult(
                feature=feature, error_code=ErrorCode.INVALID_REQUEST, error_message=why_refused(update)
            )
            for feature, update in sorted(updates.items())
        ]
    )


def why_refused(update: messages.update_features_request.FeatureUpdateKey) -> str:
    """Return why an update is refused, where no feature is known."""
    is_downgrade = update.allow_downgrade or update.upgrade_type in _DOWNGRADES
    if not update.feature:
        return "Feature name can not be empty."
    if not is_downgrade and update.upgrade_type != _UPGRADE:
        return "Received unknown upgrade type."
    if update.max_version_level < 1:
        if is_downgrade:
            return "Can not delete non-existing finalized feature."
        return (
            f"Can not provide versionLevel: {update.max_version_level} less than 1 "
            "without setting the SAFE downgradeType in the request."
        )
    return "Could not apply finalized feature update because the provided feature is not supported."


APIS: Final = (serve_api(ApiKey.UPDATE_FEATURES, 0, 1, update_features, ALTER_CLUSTER),)
