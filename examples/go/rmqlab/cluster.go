// Package rmqlab gives a test its own RocketMQ cluster: `rmqlab up` as a child process, commanded over its control API.
//
// Copy this folder into your module. The command is `rmqlab` on the path, or $RMQLAB_COMMAND.
package rmqlab

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

const patience = 60 * time.Second

// Options of a cluster. Zero values mean one group of one ASYNC_MASTER and one slave.
type Options struct {
	Role     string   // SYNC_MASTER or ASYNC_MASTER
	Groups   int      // broker groups: a master and its slaves each
	Slaves   int      // slaves of each master
	Settings []string // broker settings, such as enablePropertyFilter=true
}

// Cluster is a running cluster. Targets are broker-a:master, broker-a:slave, broker-a-s, namesrv-1.
type Cluster struct {
	NamesrvAddr string // what clients need
	t           testing.TB
	base, token string
}

// Start starts a cluster, waits until all of its nodes are ready, and stops it when the test ends.
func Start(t testing.TB, options Options) *Cluster {
	t.Helper()
	home := t.TempDir()
	log, err := os.Create(filepath.Join(home, "up.log"))
	check(t, err)
	command := exec.Command(commandName(), arguments(options)...)
	command.Env = append(os.Environ(), "RMQLAB_HOME="+home)
	command.Stderr = log
	out, err := command.StdoutPipe()
	check(t, err)
	if err := command.Start(); err != nil {
		t.Fatalf("%v: install rmqlab (pip install /path/to/rmqlab), or set RMQLAB_COMMAND to its path", err)
	}
	t.Cleanup(func() { stop(t, command, log) })

	lines := bufio.NewReader(out)
	line, err := lines.ReadBytes('\n') // the cluster; then one event a line
	if err != nil {
		reason, _ := os.ReadFile(log.Name())
		t.Fatalf("rmqlab up: %v: %s", err, reason)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }() // so that the pipe never fills
	var started struct {
		NamesrvAddr string `json:"namesrv_addr"`
		Control     struct{ URL, Token string }
	}
	check(t, json.Unmarshal(line, &started))
	return &Cluster{NamesrvAddr: started.NamesrvAddr, t: t, base: started.Control.URL, token: started.Control.Token}
}

// Kill kills a process with SIGKILL.
func (c *Cluster) Kill(target string) { c.t.Helper(); c.Act("kill", target) }

// StartNode starts a node that does not run, and returns when it is ready.
func (c *Cluster) StartNode(target string) { c.t.Helper(); c.Act("start", target) }

// Act does any action that `rmqlab --help` lists. The test ends if it is impossible.
func (c *Cluster) Act(action, target string) {
	c.t.Helper()
	c.must("POST", "/v1/actions/"+action, map[string]any{"target": target}, nil)
}

// Fault puts a fault in force, and returns its id: Fault(map[string]any{"type": "isolate", "target": "broker-a"}).
func (c *Cluster) Fault(values map[string]any) string {
	c.t.Helper()
	var fault struct{ ID string }
	c.must("POST", "/v1/faults", values, &fault)
	return fault.ID
}

// Heal ends a fault.
func (c *Cluster) Heal(id string) { c.t.Helper(); c.must("DELETE", "/v1/faults/"+id, nil, nil) }

// WaitUntil waits for a condition, such as "route-gone broker-a:master". The test ends if it is not true in a minute.
func (c *Cluster) WaitUntil(condition string) {
	c.t.Helper()
	c.must("POST", "/v1/wait", map[string]any{"condition": condition, "seconds": patience.Seconds()}, nil)
}

// AwaitRoute waits until the nameserver has a topic. A consumer of the Go client does not start before that, and a topic
// that the first send creates is registered only after the send.
func (c *Cluster) AwaitRoute(topic string) {
	c.t.Helper()
	c.WaitUntil("topic-known namesrv-1 " + topic)
}

// Ask sends a request to the control API, and decodes the response into `into` unless that is nil.
func (c *Cluster) Ask(method, path string, body, into any) error {
	var sent io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(data)
	}
	request, err := http.NewRequest(method, c.base+path, sent)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", "application/json")
	client := http.Client{Timeout: patience + 30*time.Second}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		var failed struct{ Error struct{ Message string } }
		_ = json.NewDecoder(response.Body).Decode(&failed)
		return fmt.Errorf("%s %s: %d: %s", method, path, response.StatusCode, failed.Error.Message)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(into)
}

func (c *Cluster) must(method, path string, body, into any) {
	c.t.Helper()
	check(c.t, c.Ask(method, path, body, into))
}

func stop(t testing.TB, command *exec.Cmd, log *os.File) {
	_ = command.Process.Signal(syscall.SIGTERM) // it stops the nodes in order
	timer := time.AfterFunc(patience, func() { _ = command.Process.Kill() })
	_ = command.Wait()
	timer.Stop()
	_ = log.Close()
	if t.Failed() {
		reason, _ := os.ReadFile(log.Name())
		t.Logf("rmqlab up: %s", reason)
	}
}

func commandName() string {
	if name := os.Getenv("RMQLAB_COMMAND"); name != "" {
		return name
	}
	return "rmqlab"
}

func arguments(options Options) []string {
	words := []string{"up", "--json", "--control", "127.0.0.1:0"}
	if options.Role != "" {
		words = append(words, "--role", options.Role)
	}
	if options.Groups > 0 {
		words = append(words, "--groups", strconv.Itoa(options.Groups))
	}
	if options.Slaves > 0 {
		words = append(words, "--slaves", strconv.Itoa(options.Slaves))
	}
	for _, setting := range options.Settings {
		words = append(words, "--set", setting)
	}
	return words
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
