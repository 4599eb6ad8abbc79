"""Settings of 4.9.8 that have no effect here.

They concern parts that do not exist here: thread pools, Netty's buffers, and the like. They can be set, are
kept in the file, and are shown with 4.9.8's defaults, because tools compare brokers by them and fail if some are
missing. Settings whose absence would lose or hide messages are refused: see REFUSED. Sources: classes BrokerConfig,
MessageStoreConfig, NettyServerConfig, NettyClientConfig.
"""

import os
from collections.abc import Mapping
from typing import Any

import attrs

from rmqlab.runtime.config.settings import snake
from rmqlab.runtime.config.validators import FIXED, INT32, INT64, one_line_texts, shown, within

_CPUS = os.cpu_count() or 1

DEFAULTS: Mapping[str, bool | int | str] = {
    # thread pools and their queues
    "adminBrokerThreadPoolNums": 16,
    "clientManageThreadPoolNums": 32,
    "clientManagerThreadPoolQueueCapacity": 1_000_000,
    "consumerManageThreadPoolNums": 32,
    "consumerManagerThreadPoolQueueCapacity": 1_000_000,
    "endTransactionPoolQueueCapacity": 100_000,
    "endTransactionThreadPoolNums": max(8 + _CPUS * 2, min(_CPUS, 4) * 4),
    "heartbeatThreadPoolNums": min(_CPUS, 32),
    "heartbeatThreadPoolQueueCapacity": 50_000,
    "processReplyMessageThreadPoolNums": 16 + _CPUS * 2,
    "pullMessageThreadPoolNums": 16 + _CPUS * 2,
    "pullThreadPoolQueueCapacity": 100_000,
    "putMessageFutureThreadPoolNums": min(_CPUS, 4),
    "putThreadPoolQueueCapacity": 10_000,
    "queryMessageThreadPoolNums": 8 + _CPUS,
    "queryThreadPoolQueueCapacity": 20_000,
    "replyThreadPoolQueueCapacity": 10_000,
    "sendMessageThreadPoolNums": min(_CPUS, 4),
    "sendThreadPoolQueueCapacity": 10_000,
    # Netty
    "channelNotActiveInterval": 60_000,
    "clientAsyncSemaphoreValue": 65_535,
    "clientCallbackExecutorThreads": _CPUS,  # exportMetrics shows it as the number of processors
    "clientChannelMaxIdleTimeSeconds": 120,
    "clientCloseSocketIfTimeout": True,
    "clientOnewaySemaphoreValue": 65_535,
    "clientPooledByteBufAllocatorEnable": False,
    "clientSocketRcvBufSize": 0,
    "clientSocketSndBufSize": 0,
    "clientWorkerThreads": 4,
    "connectTimeoutMillis": 3_000,
    "serverAsyncSemaphoreValue": 64,
    "serverCallbackExecutorThreads": 0,
    "serverOnewaySemaphoreValue": 256,
    "serverPooledByteBufAllocatorEnable": True,
    "serverSelectorThreads": 3,
    "serverSocketBacklog": 1024,
    "serverSocketRcvBufSize": 0,
    "serverSocketSndBufSize": 0,
    "serverWorkerThreads": 8,
    "useEpollNativeSelector": False,
    "useTLS": False,
    "writeBufferHighWaterMark": 0,
    "writeBufferLowWaterMark": 0,
    # the broker
    "commercialBaseCount": 1,
    "commercialBigCount": 1,
    "commercialEnable": True,
    "commercialTimerCount": 1,
    "commercialTransCount": 1,
    "consumerFallbehindThreshold": 16 * 2**30,
    "disableConsumeIfConsumerReadSlowly": False,
    "enableCalcFilterBitMap": False,
    "fetchNamesrvAddrByAddressServer": False,
    "filterServerNums": 0,
    "flushConsumerOffsetHistoryInterval": 60_000,
    "highSpeedMode": False,
    "isolateLogEnable": False,
    "maxDelayTime": 40,
    "messageStorePlugIn": "",
    "transferMsgByHeap": True,
    # the store
    "bitMapLengthConsumeQueueExt": 112,
    "commitCommitLogLeastPages": 4,
    "commitCommitLogThoroughInterval": 200,
    "commitIntervalCommitLog": 200,
    "debugLockEnable": False,
    "deleteCommitLogFilesInterval": 100,
    "deleteConsumeQueueFilesInterval": 100,
    "destroyMapedFileIntervalForcibly": 120_000,
    "diskFallRecorded": True,
    "duplicationEnable": False,
    "enableConsumeQueueExt": False,
    "enableLmq": False,
    "enableMultiDispatch": False,
    "enableScheduleAsyncDeliver": False,
    "fastFailIfNoBufferInStorePool": False,
    "flushCommitLogTimed": True,
    "flushLeastPagesWhenWarmMapedFile": 4096,
    "mappedFileSizeConsumeQueueExt": 48 * 2**20,
    "maxLmqConsumeQueueNum": 20_000,
    "putMsgIndexHightWater": 600_000,
    "readOnlyCommitLogStorePaths": "",
    "redeleteHangedFileInterval": 120_000,
    "scheduleAsyncDeliverMaxPendingLimit": 2_000,
    "scheduleAsyncDeliverMaxResendNum2Blocked": 3,
    "transientStorePoolEnable": False,
    "transientStorePoolSize": 5,
    "useReentrantLockWhenPutMessage": True,
    "warmMapedFileEnable": False,
    # DLedger
    "storePathDLedgerCommitLog": "",
}
"""By RocketMQ's names; `bitMapLengthConsumeQueueExt` as the default bloom filter makes it."""


_LONGS = frozenset({"channelNotActiveInterval", "consumerFallbehindThreshold"})
"""Those of the numbers that are a Java long; the others are an int."""

REFUSED: Mapping[str, str] = {
    "readOnlyCommitLogStorePaths": "a commit log in several directories is not supported:"
    " the messages in these would be missing",
}
"""Settings that must keep their default, and why, by RocketMQ's names."""


def _field(key: str, default: bool | int | str) -> Any:  # noqa: FBT001 - a default, not a switch
    validators = []
    if key in REFUSED:
        validators.append(_keeps(default, REFUSED[key]))
    if type(default) is int:
        most = INT64 if key in _LONGS else INT32
        validators.append(within(-most - 1, most))
    metadata = FIXED if "Path" in key or key == "messageStorePlugIn" else {}
    return attrs.field(default=default, type=type(default), validator=validators or None, metadata=metadata)


def _keeps(default: object, reason: str) -> Any:
    def check(_config: object, field: "attrs.Attribute[Any]", value: object) -> None:
        if value != default:
            text = str(value).lower() if isinstance(value, bool) else shown(value)
            raise ValueError(f"{field.name} = {text}: {reason}")

    return check


UnusedConfig: Any = attrs.make_class(
    "UnusedConfig",
    {snake(key): _field(key, default) for key, default in DEFAULTS.items()},
    frozen=True,
    kw_only=True,
    field_transformer=one_line_texts,
)
"""These settings as a class like those of the others, to be read, changed and shown alike."""


_DEFAULTS_BY_OUR_NAMES = {snake(key): value for key, value in DEFAULTS.items()}


def ineffective_settings(values: Mapping[str, Any]) -> list[str]:
    """Return the explicit settings, by our names, that have no effect here."""
    return [
        name
        for name, value in values.items()
        if name in _DEFAULTS_BY_OUR_NAMES and str(value).lower() != str(_DEFAULTS_BY_OUR_NAMES[name]).lower()
    ]
