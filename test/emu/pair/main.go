//go:build linux

// Pair runs a server and its client and ends with 0 if both do.
//
//	pair [-t TIME] [-p PORT] [-int TEXT] SERVER [ARG]... -- CLIENT [ARG]...
//	emu -- pair -raw raw_ethernet_bw --server … -- raw_ethernet_bw --client …
//	emu -- pair -p 18515 ib_write_bw -- ib_write_bw 127.0.0.1
//
// The client starts when a process listens on the TCP port, or without -p when the server sleeps. At the end pair
// prints the output of both, below lines such as "=== server: exit 0".
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/emu/emutest"
)

// output collects what a program prints.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

type end struct {
	name string
	cmd  *exec.Cmd
	out  [2]output // stdout and stderr
	done chan struct{}
	err  error
}

func start(name string, args []string) (*end, error) {
	e := &end{name: name, cmd: exec.Command(args[0], args[1:]...), done: make(chan struct{})}
	e.cmd.Stdout, e.cmd.Stderr = &e.out[0], &e.out[1]
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	e.cmd.WaitDelay = time.Second
	if err := e.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		e.err = e.cmd.Wait()
		close(e.done)
	}()
	return e, nil
}

func (e *end) signal(s syscall.Signal) { _ = syscall.Kill(-e.cmd.Process.Pid, s) }

func (e *end) ended() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// verdict describes how the program ended. interrupted reports whether SIGINT was sent.
func (e *end) verdict(interrupted bool) (string, bool) {
	var x *exec.ExitError
	switch {
	case e.err == nil:
		return "exit 0", true
	case !errors.As(e.err, &x):
		return e.err.Error(), false
	}
	if s, ok := x.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return s.Signal().String(), interrupted && s.Signal() == syscall.SIGINT
	}
	return fmt.Sprintf("exit %d", x.ExitCode()), false
}

// listening reports whether a process listens on the TCP port.
func listening(port int) bool {
	local := fmt.Sprintf(":%04X", port)
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		table, _ := os.ReadFile(file)
		for line := range strings.Lines(string(table)) {
			// sl, local address, remote address, state: 0A is LISTEN.
			if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[1], local) && f[3] == "0A" {
				return true
			}
		}
	}
	return false
}

// listeningCM reports whether a process listens on the port of rdma_cm, according to the emulator.
func listeningCM(port int) bool {
	e, err := emutest.Connect()
	if err != nil {
		return false
	}
	ports, err := e.Listeners()
	return err == nil && slices.Contains(ports, port)
}

// receiving reports whether a raw packet QP can receive frames, according to the emulator.
func receiving() bool {
	e, err := emutest.Connect()
	if err != nil {
		return false
	}
	n, err := e.Receivers()
	return err == nil && n > 0
}

// wrappers start the program by exec.
var wrappers = []string{"bash", "chroot", "dash", "env", "perl", "setpriv", "stdbuf", "unshare"}

// times returns the CPU time of a process that sleeps, "" while it runs.
func times(pid int) string {
	exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if slices.Contains(wrappers, filepath.Base(exe)) || len(f) < 13 || f[0] != "S" {
		return ""
	}
	return f[11] + " " + f[12]
}

func run(args []string, stdout, stderr io.Writer) int {
	f := flag.NewFlagSet("pair", flag.ContinueOnError)
	f.SetOutput(stderr)
	limit := f.Duration("t", 20*time.Second, "kill both after this `time`")
	port := f.Int("p", 0, "TCP `port` that the server listens on")
	cmPort := f.Int("cm", 0, "`port` that the server listens on in rdma_cm")
	raw := f.Bool("raw", false, "the server receives frames by a raw packet QP")
	interrupt := f.String("int", "", "send SIGINT to both when the client has printed `text`; they may die of it")
	if f.Parse(args) != nil {
		return 2
	}
	cut := slices.Index(f.Args(), "--")
	if cut < 1 || cut == f.NArg()-1 {
		fmt.Fprintln(stderr, "pair: want SERVER [ARG]... -- CLIENT [ARG]...")
		return 2
	}
	deadline := time.Now().Add(*limit)
	server, err := start("server", f.Args()[:cut])
	if err != nil {
		fmt.Fprintln(stderr, "pair:", err)
		return 1
	}
	const patience = 2 * time.Second // servers of rsocket never sleep for long
	begun := time.Now()
	last, asleep := "", 0
	for ready := false; !ready && !server.ended() && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if *port != 0 {
			ready = listening(*port)
			continue
		}
		if *cmPort != 0 {
			ready = listeningCM(*cmPort)
			continue
		}
		if *raw {
			ready = receiving()
			continue
		}
		t := times(server.cmd.Process.Pid)
		if t == "" || t != last {
			asleep = 0
		}
		last, asleep = t, asleep+1
		ready = asleep > 15 || time.Since(begun) > patience
	}
	ends := []*end{server}
	if !server.ended() {
		client, err := start("client", f.Args()[cut+1:])
		if err != nil {
			fmt.Fprintln(stderr, "pair:", err)
			server.signal(syscall.SIGKILL)
			return 1
		}
		ends = append(ends, client)
	}
	if *interrupt != "" && len(ends) == 2 {
		client := ends[1]
		for !client.ended() && time.Now().Before(deadline) && !strings.Contains(client.out[0].String(), *interrupt) {
			time.Sleep(5 * time.Millisecond)
		}
		for _, e := range ends {
			e.signal(syscall.SIGINT)
		}
	}
	code, failed := 0, false
	for left := ends; len(left) > 0; time.Sleep(5 * time.Millisecond) {
		late := time.Now().After(deadline)
		left = slices.DeleteFunc(slices.Clone(left), func(e *end) bool {
			if late && !e.ended() {
				fmt.Fprintf(stdout, "=== %s: killed, it did not end\n", e.name)
				e.signal(syscall.SIGKILL)
				<-e.done
			}
			if !e.ended() {
				return false
			}
			// The other end of the pair may wait for ever.
			if _, ok := e.verdict(*interrupt != ""); !ok && !failed {
				failed, deadline = true, time.Now().Add(min(time.Until(deadline), 3*time.Second))
			}
			return true
		})
	}
	for _, e := range ends {
		v, ok := e.verdict(*interrupt != "")
		fmt.Fprintf(stdout, "=== %s: %s\n%s\n%s\n", e.name, v, e.out[0].String(), e.out[1].String())
		if !ok {
			code = 1
		}
	}
	if len(ends) == 1 {
		fmt.Fprintln(stdout, "=== the server ended before there was a client")
		code = 1
	}
	return code
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }
