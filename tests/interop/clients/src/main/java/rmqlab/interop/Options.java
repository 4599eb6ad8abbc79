package rmqlab.interop;

import java.util.HashMap;
import java.util.Map;

/** Arguments as {@code name=value} words: {@code namesrv=127.0.0.1:9876 topic=orders count=10}. */
final class Options {
    /** Exit codes of the programs here; anything that throws ends with 1, as Java does. */
    static final int DONE = 0;
    static final int USAGE = 2;
    static final int INCOMPLETE = 3;

    private final Map<String, String> values = new HashMap<>();

    Options(String[] words) {
        for (String word : words) {
            int cut = word.indexOf('=');
            if (cut < 1) {
                fail("not name=value: " + word);
            }
            values.put(word.substring(0, cut), word.substring(cut + 1));
        }
    }

    String text(String name) {
        String value = values.get(name);
        if (value == null) {
            fail("missing option: " + name);
        }
        return value;
    }

    String text(String name, String otherwise) {
        return values.getOrDefault(name, otherwise);
    }

    int number(String name, int otherwise) {
        return Integer.parseInt(values.getOrDefault(name, Integer.toString(otherwise)));
    }

    private static void fail(String reason) {
        System.err.println(reason);
        System.exit(USAGE);
    }
}
