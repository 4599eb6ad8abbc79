package rmqlab.interop;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Stock mqadmin, many commands in one virtual machine: alone, each takes three seconds to end, waiting for
 * Netty's threads. Reads one command a line, arguments separated by tabs, and answers with what it printed
 * (standard error included) followed by a line that has only the byte 4 (end of transmission).
 */
public final class Admin {
    public static void main(String[] none) throws Exception {
        PrintStream answers = System.out;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream capture = new PrintStream(printed, true, StandardCharsets.UTF_8);
            System.setOut(capture);
            System.setErr(capture);
            Commands.renew();
            MQAdminStartup.main(line.split("\t"));
            answers.write(printed.toByteArray());
            answers.print("\n\u0004\n");
            answers.flush();
        }
        System.exit(Options.DONE);
    }

    /** sendMessage, consumeMessage and others keep a client that works once. */
    private static final class Commands extends MQAdminStartup {
        static void renew() {
            subCommandList.clear();
        }
    }
}
