/* A slave as bare as it can be: receives a master's log into a mapped file, acknowledges each frame, does nothing else.
 *
 *     receive HOST PORT FILE BYTES
 *
 * Prints the seconds from the first byte until BYTES of the log are there. What is left to do for a real slave, entering
 * each message in its queue, it leaves out: a yardstick for the catch-up benchmark, not a rival.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what) { perror(what); exit(1); }

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void receive(int sock, void *into, size_t size)
{
    for (size_t got = 0; got < size;) {
        ssize_t n = recv(sock, (char *)into + got, size - got, 0);
        if (n <= 0) die("recv");
        got += n;
    }
}

static void report(int sock, int64_t offset)
{
    uint64_t wire = htobe64((uint64_t)offset);
    if (send(sock, &wire, sizeof wire, 0) != sizeof wire) die("send");
}

int main(int argc, char **argv)
{
    if (argc != 5) { fprintf(stderr, "usage: receive HOST PORT FILE BYTES\n"); return 2; }
    int64_t target = atoll(argv[4]), room = target + (64 << 20), offset = 0;
    int file = open(argv[3], O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || ftruncate(file, room)) die(argv[3]);
    char *log = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (log == MAP_FAILED) die("mmap");

    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[2])) };
    if (inet_pton(AF_INET, argv[1], &address.sin_addr) != 1) die(argv[1]);
    int sock = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(sock, (struct sockaddr *)&address, sizeof address)) die("connect");
    report(sock, 0);

    double began = 0;
    while (offset < target) {
        struct { uint64_t offset; uint32_t size; } __attribute__((packed)) header;
        receive(sock, &header, sizeof header);
        if (!began) began = now();
        uint32_t size = ntohl(header.size);
        if ((int64_t)be64toh(header.offset) != offset || offset + size > room) { fprintf(stderr, "not what comes next\n"); return 1; }
        receive(sock, log + offset, size);
        offset += size;
        report(sock, offset);
    }
    printf("%.6f\n", now() - began);
    return 0;
}
