package rmqlab.interop;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Stock mqadmin, many commands in one virtual machine: alone, each takes three seconds to end, waiting for
 * Netty's threads. Reads one command a line, arguments separated by tabs, and answers with what it printed
 * (standard error included) followed by a line that has only the byte 4 (end of transmission).
 */
public final class Admin {
    public static void main(String[] none) throws Exception {
        PrintStream answers = System.out;
        List<?> known = subCommands();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream capture = new PrintStream(printed, true, StandardCharsets.UTF_8);
            System.setOut(capture);
            System.setErr(capture);
            known.clear(); // sendMessage and others keep a client that works once
            MQAdminStartup.main(line.split("\t"));
            answers.write(printed.toByteArray());
            answers.print("\n\u0004\n");
            answers.flush();
        }
        System.exit(Options.DONE);
    }

    /** The list that {@code main} fills; its name differs between 4.9 and 5. */
    private static List<?> subCommands() throws IllegalAccessException {
        for (Field field : MQAdminStartup.class.getDeclaredFields()) {
            if (field.getType() == List.class) {
                field.setAccessible(true);
                return (List<?>) field.get(null);
            }
        }
        throw new IllegalStateException("MQAdminStartup has no list of commands");
    }
}
