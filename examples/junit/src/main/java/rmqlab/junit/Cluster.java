package rmqlab.junit;

import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A running RocketMQ cluster: {@code rmqlab up} as a child process, commanded over its control API.
 *
 * <p>Targets are {@code broker-a:master}, {@code broker-a:slave}, {@code broker-a-s}, {@code namesrv-1}.
 */
public final class Cluster implements AutoCloseable {
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final Gson GSON = new Gson();

    private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final Process process;
    private final Thread killer;
    private final Path home;
    private final String namesrvAddr;
    private final URI url;
    private final String token;

    private Cluster(Process process, Path home, JsonObject started) {
        this.process = process;
        this.home = home;
        this.namesrvAddr = started.get("namesrv_addr").getAsString();
        this.url = URI.create(started.getAsJsonObject("control").get("url").getAsString());
        this.token = started.getAsJsonObject("control").get("token").getAsString();
        this.killer = new Thread(process::destroy);
        Runtime.getRuntime().addShutdownHook(killer);
    }

    /** Starts a cluster, and returns when all of its nodes are ready. */
    static Cluster start(RmqCluster options) {
        try {
            Path home = Files.createTempDirectory("rmqlab-junit-");
            ProcessBuilder builder = new ProcessBuilder(command(options)).redirectError(home.resolve("up.log").toFile());
            builder.environment().put("RMQLAB_HOME", home.toString());
            Process process;
            try {
                process = builder.start();
            } catch (IOException e) {
                throw new IllegalStateException(
                    "install rmqlab (pip install /path/to/rmqlab), or set -Drmqlab.command=PATH", e);
            }
            InputStreamReader bytes = new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8);
            BufferedReader out = new BufferedReader(bytes);
            String line = out.readLine(); // the cluster; then one event a line
            if (line == null) {
                throw new IllegalStateException("rmqlab up: " + Files.readString(home.resolve("up.log")));
            }
            drain(out);
            return new Cluster(process, home, JsonParser.parseString(line).getAsJsonObject());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** What clients need: {@code producer.setNamesrvAddr(cluster.namesrvAddr())}. */
    public String namesrvAddr() {
        return namesrvAddr;
    }

    /** Kills a process with SIGKILL. */
    public void kill(String target) {
        act("kill", target);
    }

    /** Starts a node that does not run, and returns when it is ready. */
    public void start(String target) {
        act("start", target);
    }

    /** Does any action that {@code rmqlab --help} lists: {@code act("pause", "broker-a:slave")}. */
    public JsonElement act(String action, String target) {
        return ask("POST", "/v1/actions/" + action, Map.of("target", target));
    }

    /** Puts a fault in force, and returns its id: {@code fault(Map.of("type", "isolate", "target", "broker-a"))}. */
    public String fault(Map<String, ?> values) {
        return ask("POST", "/v1/faults", values).getAsJsonObject().get("id").getAsString();
    }

    /** Ends a fault. */
    public void heal(String id) {
        ask("DELETE", "/v1/faults/" + id, null);
    }

    /** Waits for a condition, such as {@code route-gone broker-a:master}; fails if it is not true within a minute. */
    public void waitUntil(String condition) {
        ask("POST", "/v1/wait", Map.of("condition", condition, "seconds", PATIENCE.toSeconds()));
    }

    /** Waits until a broker has a topic: a slave copies topics from its master every 10 s. */
    public void awaitTopic(String node, String topic) {
        waitUntil("topic-known " + node + " " + topic);
    }

    /** What {@code rmqlab status --json} prints. */
    public JsonObject status() {
        return ask("GET", "/v1/status", null).getAsJsonObject();
    }

    /** Sends a request to the control API. Fails with its message unless the status is 200. */
    public JsonElement ask(String method, String path, Object body) {
        HttpRequest.BodyPublisher publisher = body == null
            ? HttpRequest.BodyPublishers.noBody()
            : HttpRequest.BodyPublishers.ofString(GSON.toJson(body));
        HttpRequest request = HttpRequest.newBuilder(url.resolve(path))
            .method(method, publisher)
            .header("Authorization", "Bearer " + token)
            .header("Content-Type", "application/json")
            .timeout(PATIENCE.plusSeconds(30))
            .build();
        try {
            HttpResponse<String> response = http.send(request, HttpResponse.BodyHandlers.ofString());
            JsonElement document = JsonParser.parseString(response.body());
            if (response.statusCode() != 200) {
                String message = document.getAsJsonObject().getAsJsonObject("error").get("message").getAsString();
                throw new AssertionError(method + " " + path + ": " + response.statusCode() + ": " + message);
            }
            return document;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
    }

    /** Stops all nodes. */
    @Override
    public void close() {
        process.destroy(); // SIGTERM: it stops the nodes in order
        try {
            if (!process.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS)) {
                process.destroyForcibly(); // all of its processes end with it
            }
        } catch (InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
        Runtime.getRuntime().removeShutdownHook(killer);
    }

    Path home() {
        return home;
    }

    void deleteFiles() {
        try (Stream<Path> files = Files.walk(home)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).collect(Collectors.toList())) {
                Files.deleteIfExists(file);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static List<String> command(RmqCluster options) {
        List<String> words = new ArrayList<>(List.of(
            System.getProperty("rmqlab.command", "rmqlab"), "up", "--json", "--control", "127.0.0.1:0",
            "--role", options.role().name(),
            "--groups", String.valueOf(options.groups()),
            "--slaves", String.valueOf(options.slaves())));
        for (String setting : options.settings()) {
            Collections.addAll(words, "--set", setting);
        }
        return words;
    }

    /** Reads the events that follow, so that the pipe never fills. */
    private static void drain(BufferedReader out) {
        Thread thread = new Thread(() -> {
            try (out) {
                out.transferTo(Writer.nullWriter());
            } catch (IOException ignored) {
                // the process has ended
            }
        });
        thread.setDaemon(true);
        thread.start();
    }
}
