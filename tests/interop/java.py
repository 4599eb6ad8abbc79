"""Java programs: ours, the stock benchmarks, and mqadmin, with separate homes."""

import re
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.interop import maven
from tests.interop.child import Child

CLIENTS = {"4.9.8": "clients", "5.3.3": "clients5"}
OLD_CLIENTS = {"4.2.0": "clients42", "4.7.1": "clients47"}
SERVERS = {"4.9.7": "servers", "5.3.3": "servers5"}
"""Versions of the Java client, of older ones, and of the servers, and the folders that Maven puts their libraries
into."""

# Short-lived programs: a JVM that starts fast and takes little of two cores.
_LIGHT = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
# The Netty of older clients accesses fields that newer JDKs hide.
_FOR_NETTY_4_0 = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.nio", "sun.nio.ch")]
_SPRING_SHOP = "rmqlab.interop.spring.SpringShop"
_END_OF_ANSWER = "\x04"
_STACK_LINE = re.compile(r"\t(at |\.\.\. \d+ more)")

# Own text; the servers refuse to start without a file of this name.
_LOGBACK = """<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} %-5level %logger{0} %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""
# Client programs print their results, one per line, without other output between them.
_LOGBACK_OF_CLIENTS = """<configuration>
  <appender name="out" class="ch.qos.logback.core.FileAppender">
    <file>${user.home}/logs/clients.log</file>
    <encoder><pattern>%d{HH:mm:ss.SSS} %-5level %logger{0} %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""


class Java:
    """Starts JVMs that write only in `directory`: logs and certificates in user.home."""

    def __init__(self, directory: Path) -> None:
        maven.build()
        self.directory = directory
        conf = directory / "rocketmq" / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        for program in ("namesrv", "broker", "tools"):
            (conf / f"logback_{program}.xml").write_text(_LOGBACK)
        self._clients_logback = conf / "logback_clients.xml"
        self._clients_logback.write_text(_LOGBACK_OF_CLIENTS)

    def start(
        self, main: str, *args: str, jvm: list[str] | None = None, client: str = "4.9.8", options: Sequence[str] = ()
    ) -> Child:
        """A client program: class name below rmqlab.interop, or a full one.

        `options` of the virtual machine are added.
        """
        full = main if "." in main else f"rmqlab.interop.{main}"
        machine = [*(_LIGHT if jvm is None else jvm), f"-Dlogback.configurationFile={self._clients_logback}", *options]
        return self._start(main, [*machine, "-cp", maven.clients_classpath(CLIENTS[client]), full, *args])

    def start_old_client(self, release: str, *args: str) -> Child:
        """Start the program for clients that are older than 4.9: namesrv, feature, count."""
        prefix = f"-Dtopic.prefix=Old{release.replace('.', '')}"
        classpath = maven.old_clients_classpath(OLD_CLIENTS[release])
        return self._start(
            "OldClient", [*_LIGHT, *_FOR_NETTY_4_0, prefix, "-cp", classpath, "rmqlab.interop.old.OldClient", *args]
        )

    def start_spring(self, *args: str) -> Child:
        """Start the application on rocketmq-spring, with Spring's own arguments."""
        return self._start("SpringShop", [*_LIGHT, "-cp", maven.spring_classpath(), _SPRING_SHOP, *args])

    def start_server(self, name: str, main: str, *args: str, jvm: list[str], release: str) -> Child:
        return self._start(name, [*jvm, "-cp", maven.servers_classpath(SERVERS[release]), main, *args])

    def _start(self, name: str, argv: list[str]) -> Child:
        home = self.directory / "user"
        home.mkdir(exist_ok=True)
        return Child(
            name,
            ["java", f"-Duser.home={home}", f"-Djava.io.tmpdir={home}", "-XX:-UsePerfData", *argv],
            env={"ROCKETMQ_HOME": str(self.directory / "rocketmq"), "NAMESRV_ADDR": ""},
            cwd=self.directory,
        )


class Mqadmin:
    """The stock mqadmin, kept running: `run` returns the output of one command."""

    def __init__(self, java: Java, client: str = "4.9.8") -> None:
        self._child = java.start("Admin", client=client)

    def run(self, namesrv: str, command: str, *args: str, timeout: float = 120.0) -> str:
        """A failure shows in the text, as the exception's own words."""
        start = len(self._child.lines)
        self._child.write_line("\t".join([command, "-n", namesrv, *args]))
        end = self._child.find_line(f"^{_END_OF_ANSWER}$", timeout, start=start)
        return "\n".join(line for line in self._child.lines[start:end] if not _STACK_LINE.match(line)).strip("\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.__exit__(kind, exc, trace)
