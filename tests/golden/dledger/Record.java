import com.alibaba.fastjson.JSON;
import io.openmessaging.storage.dledger.DLedgerConfig;
import io.openmessaging.storage.dledger.DLedgerLeaderElector;
import io.openmessaging.storage.dledger.MemberState;
import io.openmessaging.storage.dledger.entry.DLedgerEntry;
import io.openmessaging.storage.dledger.protocol.*;
import io.openmessaging.storage.dledger.store.file.DLedgerMmapFileStore;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.RandomAccessFile;
import java.nio.file.*;
import java.security.MessageDigest;
import java.util.*;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Records what DLedger 0.3.1.2 writes and answers. See README.md for the command. */
public class Record {
    static final int DATA_FILE = 1024;
    static final int INDEX_FILE = 16 * DLedgerMmapFileStore.INDEX_UNIT_SIZE;
    static Path work;

    public static void main(String[] args) throws Exception {
        Path out = Paths.get(args[0]).toAbsolutePath();
        work = Files.createTempDirectory("rmqlab-dledger-golden");
        bodies(out.resolve("bodies.jsonl"));
        votes(out.resolve("votes.jsonl"));
        heartbeats(out.resolve("heartbeats.jsonl"));
        stores(out);
        System.exit(0);
    }

    // ---- bodies ----

    static DLedgerEntry entry(long index, String body) {
        DLedgerEntry entry = new DLedgerEntry();
        entry.setMagic(1);
        entry.setIndex(index);
        entry.setTerm(7);
        entry.setPos(4096 + index);
        entry.setBody(body.getBytes());
        entry.computeSizeInBytes();
        return entry;
    }

    static <T extends RequestOrResponse> T base(T body) {
        body.setGroup("broker-a");
        body.setRemoteId("n1");
        body.setLocalId("n0");
        body.setLeaderId("n0");
        body.setTerm(7);
        return body;
    }

    static void body(PrintWriter out, String name, Object body) {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("name", name);
        row.put("class", body.getClass().getSimpleName());
        row.put("json", JSON.toJSONString(body));
        out.println(JSON.toJSONString(row));
    }

    static void bodies(Path path) throws IOException {
        try (PrintWriter out = new PrintWriter(Files.newBufferedWriter(path))) {
            for (RequestOrResponse empty : List.of(new VoteRequest(), new VoteResponse(), new HeartBeatRequest(),
                new HeartBeatResponse(), new PushEntryRequest(), new PushEntryResponse(), new LeadershipTransferRequest(),
                new LeadershipTransferResponse(), new MetadataRequest(), new MetadataResponse(), new AppendEntryRequest(),
                new AppendEntryResponse(), new GetEntriesRequest(), new GetEntriesResponse(), new PullEntriesRequest(),
                new PullEntriesResponse(), new BatchAppendEntryRequest())) {
                body(out, "empty", empty);
            }
            VoteRequest vote = base(new VoteRequest());
            vote.setLedgerEndIndex(41);
            vote.setLedgerEndTerm(6);
            body(out, "full", vote);
            for (VoteResponse.RESULT result : VoteResponse.RESULT.values()) {
                body(out, "full", new VoteResponse(vote).term(8).voteResult(result));
            }
            body(out, "full", base(new HeartBeatRequest()));
            body(out, "expired", new HeartBeatResponse().term(9).code(DLedgerResponseCode.EXPIRED_TERM.getCode()));
            for (PushEntryRequest.Type type : PushEntryRequest.Type.values()) {
                PushEntryRequest push = base(new PushEntryRequest());
                push.setType(type);
                push.setCommitIndex(40);
                if (type != PushEntryRequest.Type.COMMIT) {
                    push.setEntry(entry(41, "h\u00e9llo"));
                }
                body(out, "full", push);
            }
            PushEntryRequest batch = base(new PushEntryRequest());
            batch.setCommitIndex(40);
            batch.addEntry(entry(41, "one"));
            batch.addEntry(entry(42, ""));
            body(out, "batch", batch);
            body(out, "batch-read-again", JSON.parseObject(JSON.toJSONString(batch), PushEntryRequest.class));
            PushEntryResponse pushed = new PushEntryResponse();
            pushed.setGroup("broker-a");
            pushed.setTerm(7);
            pushed.setIndex(41L);
            pushed.setCount(2);
            pushed.setBeginIndex(3);
            pushed.setEndIndex(42);
            body(out, "full", pushed);
            LeadershipTransferRequest transfer = base(new LeadershipTransferRequest());
            transfer.setTransferId("n0");
            transfer.setTransfereeId("n1");
            transfer.setTakeLeadershipLedgerIndex(42);
            body(out, "full", transfer);
            body(out, "full", new LeadershipTransferResponse().term(8).code(200));
            MetadataResponse metadata = base(new MetadataResponse());
            metadata.setPeers(new TreeMap<>(Map.of("n0", "127.0.0.1:40911", "n1", "127.0.0.1:40912")));
            body(out, "full", metadata);
            AppendEntryRequest append = base(new AppendEntryRequest());
            append.setBody("hello".getBytes());
            body(out, "full", append);
            AppendEntryResponse appended = base(new AppendEntryResponse());
            appended.setIndex(43);
            appended.setPos(8192);
            body(out, "full", appended);
            GetEntriesRequest get = base(new GetEntriesRequest());
            get.setBeginIndex(41L);
            body(out, "full", get);
            GetEntriesResponse got = base(new GetEntriesResponse());
            got.setEntries(List.of(entry(41, "one")));
            body(out, "full", got);
        }
    }

    // ---- votes and heartbeats ----

    static MemberState member(String preferred) throws IOException {
        DLedgerConfig config = new DLedgerConfig();
        config.group("broker-a").selfId("n0").peers("n0-localhost:1;n1-localhost:2;n2-localhost:3");
        config.setStoreBaseDir(Files.createTempDirectory(work, "m").toString());
        config.setPreferredLeaderIds(preferred);
        return new MemberState(config);
    }

    static void follow(MemberState member, String leader, long term) {
        if (leader.equals("n0")) {
            member.changeToLeader(term);
        } else if (!leader.isEmpty()) {
            member.changeToFollower(term, leader);
        }
    }

    static void votes(Path path) throws IOException {
        long[][] ends = {{0, 9}, {1, 4}, {1, 5}, {2, 0}, {3, 4}, {3, 5}};
        try (PrintWriter out = new PrintWriter(Files.newBufferedWriter(path))) {
            for (long[] local : new long[][] {{1, 5}, {3, 5}})
            for (String leader : List.of("", "n2", "n0"))
            for (String voted : List.of("", "n1", "n2"))
            for (boolean taking : new boolean[] {false, true})
            for (String candidate : List.of("n1", "n9", "n0"))
            for (long term = 1; term <= 3; term++)
            for (long[] end : ends) {
                MemberState member = member(taking ? "n0" : null);
                member.setCurrTermForTest(2);
                follow(member, leader, 2);
                member.updateLedgerIndexAndTerm(local[1], local[0]);
                member.setCurrVoteFor(voted.isEmpty() ? null : voted);
                member.setTermToTakeLeadership(taking ? 2 : -1);
                VoteRequest request = new VoteRequest();
                request.setGroup("broker-a");
                request.setRemoteId("n0");
                request.setLocalId(candidate);
                request.setLeaderId(candidate);
                request.setTerm(term);
                request.setLedgerEndTerm(end[0]);
                request.setLedgerEndIndex(end[1]);
                VoteResponse response =
                    new DLedgerLeaderElector(member.dLedgerConfig, member, null).handleVote(request, false).join();
                Map<String, Object> row = new LinkedHashMap<>();
                row.put("local_end", local);
                row.put("leader", leader);
                row.put("voted", voted);
                row.put("taking", taking);
                row.put("candidate", candidate);
                row.put("term", term);
                row.put("end", end);
                row.put("result", response.getVoteResult());
                row.put("result_term", response.getTerm());
                row.put("role_after", member.getRole());
                row.put("voted_after", member.currVoteFor() == null ? "" : member.currVoteFor());
                out.println(JSON.toJSONString(row));
            }
        }
    }

    static void heartbeats(Path path) throws Exception {
        try (PrintWriter out = new PrintWriter(Files.newBufferedWriter(path))) {
            for (String leader : List.of("", "n1", "n2", "n0"))
            for (String sender : List.of("n1", "n9", "n0"))
            for (long term = 1; term <= 3; term++) {
                MemberState member = member(null);
                member.setCurrTermForTest(2);
                follow(member, leader, 2);
                HeartBeatRequest request = new HeartBeatRequest();
                request.setLeaderId(sender);
                request.setTerm(term);
                HeartBeatResponse response =
                    new DLedgerLeaderElector(member.dLedgerConfig, member, null).handleHeartBeat(request).join();
                Map<String, Object> row = new LinkedHashMap<>();
                row.put("leader", leader);
                row.put("sender", sender);
                row.put("term", term);
                row.put("code", response.getCode());
                row.put("result_term", response.getTerm());
                row.put("role_after", member.getRole());
                row.put("leader_after", member.getLeaderId() == null ? "" : member.getLeaderId());
                out.println(JSON.toJSONString(row));
            }
        }
    }

    // ---- stores ----

    static DLedgerConfig storeConfig(Path root) {
        DLedgerConfig config = new DLedgerConfig();
        config.group("broker-a").selfId("n0").peers("n0-localhost:1;n1-localhost:2;n2-localhost:3");
        config.setStoreBaseDir(root.toString());
        config.setMappedFileSizeForEntryData(DATA_FILE);
        config.setMappedFileSizeForEntryIndex(INDEX_FILE);
        return config;
    }

    static byte[] bodyOf(int index) {
        byte[] body = new byte[1 + index * 37 % 200];
        Arrays.fill(body, (byte) (index + 1));
        return body;
    }

    static final int ENTRIES = 40;

    static void stores(Path out) throws Exception {
        Path leader = Files.createTempDirectory(work, "leader");
        DLedgerConfig config = storeConfig(leader);
        MemberState member = new MemberState(config);
        DLedgerMmapFileStore store = new DLedgerMmapFileStore(config, member);
        store.load();
        store.recover();
        for (int index = 0; index < ENTRIES; index++) {
            if (index % 10 == 0) {
                member.changeToCandidate(member.currTerm() + 1);
                member.setCurrVoteFor("n0");
                member.nextTerm();
                member.setCurrVoteFor("n0");
                member.changeToLeader(member.currTerm());
            }
            DLedgerEntry entry = new DLedgerEntry();
            entry.setBody(bodyOf(index));
            store.appendAsLeader(entry);
        }
        store.updateCommittedIndex(member.currTerm(), 33);
        store.shutdown();
        copy(leader.resolve("dledger-n0"), out.resolve("store"));
        damages(leader.resolve("dledger-n0"), out.resolve("recoveries.jsonl"));
        truncates(leader.resolve("dledger-n0"), out.resolve("truncates.jsonl"));
    }

    static void copy(Path from, Path to) throws IOException {
        try (Stream<Path> paths = Files.walk(from)) {
            for (Path path : paths.collect(Collectors.toList())) {
                Path target = to.resolve(from.relativize(path).toString());
                if (Files.isDirectory(path)) {
                    Files.createDirectories(target);
                } else {
                    Files.copy(path, target, StandardCopyOption.REPLACE_EXISTING);
                }
            }
        }
    }

    static void write(Path root, String file, long at, int length, int value) throws IOException {
        byte[] bytes = new byte[length];
        Arrays.fill(bytes, (byte) value);
        try (RandomAccessFile opened = new RandomAccessFile(root.resolve(file).toFile(), "rw")) {
            opened.seek(at);
            opened.write(bytes);
        }
    }

    static String digest(Path folder, long size) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        if (Files.isDirectory(folder)) {
            try (Stream<Path> paths = Files.list(folder)) {
                for (Path path : paths.sorted().collect(Collectors.toList())) {
                    long first = Long.parseLong(path.getFileName().toString());
                    byte[] bytes = Files.readAllBytes(path);
                    int end = (int) Math.max(0, Math.min(bytes.length, size - first));
                    digest.update(bytes, 0, end);
                }
            }
        }
        StringBuilder text = new StringBuilder();
        for (byte one : digest.digest()) {
            text.append(String.format("%02x", one));
        }
        return text.toString();
    }

    static Map<String, Object> state(DLedgerMmapFileStore store, Path root) throws Exception {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("begin", store.getLedgerBeginIndex());
        row.put("end", store.getLedgerEndIndex());
        row.put("end_term", store.getLedgerEndTerm());
        row.put("committed", store.getCommittedIndex());
        row.put("committed_pos", store.getCommittedPos());
        row.put("data_end", store.getDataFileList().getMaxWrotePosition());
        row.put("index_end", store.getIndexFileList().getMaxWrotePosition());
        row.put("data_digest", digest(root.resolve("dledger-n0/data"), store.getDataFileList().getMaxWrotePosition()));
        row.put("index_digest", digest(root.resolve("dledger-n0/index"), store.getIndexFileList().getMaxWrotePosition()));
        return row;
    }

    /** Each damage: a list of [file, position, length, value]; length 0 deletes the file. */
    static void damages(Path golden, Path path) throws Exception {
        List<String> data = names(golden.resolve("data"));
        List<String> index = names(golden.resolve("index"));
        String lastData = "data/" + data.get(data.size() - 1);
        String lastIndex = "index/" + index.get(index.size() - 1);
        String middle = "data/" + data.get(data.size() - 2);
        List<List<Object[]>> damages = new ArrayList<>();
        damages.add(List.<Object[]>of());
        damages.add(List.<Object[]>of(new Object[] {lastData, 0, DATA_FILE, 0}));
        damages.add(List.<Object[]>of(new Object[] {lastData, 0, 0, 0}));
        for (int at : new int[] {0, 4, 8, 16, 24, 44, 60, 200, 300, 400}) {
            damages.add(List.<Object[]>of(new Object[] {lastData, at, DATA_FILE - at, 0}));
            damages.add(List.<Object[]>of(new Object[] {middle, at, 1, 0x55}));
            damages.add(List.<Object[]>of(new Object[] {lastIndex, at, 32, 0x11}));
        }
        damages.add(List.<Object[]>of(new Object[] {lastIndex, 0, 0, 0}));
        List<Object[]> noIndex = new ArrayList<>();
        for (String name : index) {
            noIndex.add(new Object[] {"index/" + name, 0, 0, 0});
        }
        damages.add(noIndex);
        damages.add(List.<Object[]>of(new Object[] {"data/" + data.get(0), 0, 0, 0}));
        damages.add(List.<Object[]>of(new Object[] {"data/" + data.get(0), 0, 0, 0}, new Object[] {"data/" + data.get(1), 0, 0, 0},
            new Object[] {"index/" + index.get(0), 0, 0, 0}));
        damages.add(List.<Object[]>of(new Object[] {"checkpoint", 0, 0, 0}));
        try (PrintWriter out = new PrintWriter(Files.newBufferedWriter(path))) {
            for (List<Object[]> damage : damages) {
                Path root = Files.createTempDirectory(work, "damaged");
                copy(golden, root.resolve("dledger-n0"));
                for (Object[] one : damage) {
                    if ((int) one[2] == 0) {
                        Files.delete(root.resolve("dledger-n0").resolve((String) one[0]));
                    } else {
                        write(root.resolve("dledger-n0"), (String) one[0], (int) one[1], (int) one[2], (int) one[3]);
                    }
                }
                Map<String, Object> row = new LinkedHashMap<>();
                row.put("damage", damage);
                try {
                    DLedgerMmapFileStore store = opened(root);
                    row.putAll(state(store, root));
                } catch (Throwable failure) {
                    row.put("failure", String.valueOf(failure.getMessage()));
                }
                out.println(JSON.toJSONString(row));
            }
        }
    }

    static List<String> names(Path folder) throws IOException {
        try (Stream<Path> paths = Files.list(folder)) {
            return paths.map(path -> path.getFileName().toString()).sorted().collect(Collectors.toList());
        }
    }

    static DLedgerMmapFileStore opened(Path root) {
        DLedgerConfig config = storeConfig(root);
        DLedgerMmapFileStore store = new DLedgerMmapFileStore(config, new MemberState(config));
        store.load();
        store.recover();
        return store;
    }

    /** A follower with the golden store gets a TRUNCATE: with its own entry, with another one, with one far behind. */
    static void truncates(Path golden, Path path) throws Exception {
        try (PrintWriter out = new PrintWriter(Files.newBufferedWriter(path))) {
            for (int index : new int[] {39, 38, 30, 12, 3, 0}) {
                for (boolean own : new boolean[] {true, false}) {
                    truncate(out, golden, index, own, -1);
                }
            }
            truncate(out, golden, 500, false, 64L * DATA_FILE + 77);
        }
    }

    static void truncate(PrintWriter out, Path golden, int index, boolean own, long pos) throws Exception {
        Path root = Files.createTempDirectory(work, "truncated");
        copy(golden, root.resolve("dledger-n0"));
        DLedgerConfig config = storeConfig(root);
        MemberState member = new MemberState(config);
        DLedgerMmapFileStore store = new DLedgerMmapFileStore(config, member);
        store.load();
        store.recover();
        member.changeToFollower(member.currTerm(), "n1");
        DLedgerEntry entry = own || pos == -1 ? store.get((long) index) : new DLedgerEntry();
        if (!own) {
            entry.setIndex(index);
            entry.setMagic(1);
            entry.setTerm(member.currTerm());
            entry.setPos(pos == -1 ? entry.getPos() : pos);
            entry.setBody("other".getBytes());
        }
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("index", index);
        row.put("own", own);
        row.put("term", entry.getTerm());
        row.put("pos", entry.getPos());
        row.put("result", store.truncate(entry, member.currTerm(), "n1"));
        row.putAll(state(store, root));
        out.println(JSON.toJSONString(row));
    }
}
