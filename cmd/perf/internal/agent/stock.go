package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/tick"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// Stock is a server for clients that cannot request a test, such as perftest's: its test is settled beforehand.
type Stock struct {
	Name string   // of the test, for the log
	Args []string // of rdmaperf
	Port int      // TCP
}

// ServeStock serves one client of each after the other until ctx ends, or until one of them cannot begin. Clients that
// come meanwhile wait in the queue of the port, which stays open. ready is called when all ports take connections.
func ServeStock(ctx context.Context, program, bind string, list []Stock, ready func(),
	log func(format string, v ...any)) error {
	var ports []*os.File
	defer func() {
		for _, f := range ports {
			f.Close()
		}
	}()
	for _, s := range list {
		ln, err := net.Listen("tcp", net.JoinHostPort(bind, strconv.Itoa(s.Port)))
		if err != nil {
			return fmt.Errorf("--stock %q: %w", s.Name, wire.ListenHint(err, "another server"))
		}
		f, err := ln.(*net.TCPListener).File()
		ln.Close()
		if err != nil {
			return fmt.Errorf("--stock %q: %w", s.Name, err)
		}
		ports = append(ports, f)
		log("stock clients of %s on TCP port %d, one after the other", s.Name, s.Port)
	}
	ready()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error)
	for i, s := range list {
		go func() { ended <- s.serve(ctx, program, ports[i], log) }()
	}
	var errs []error
	for range list {
		if err := <-ended; err != nil {
			errs = append(errs, err)
			cancel()
		}
	}
	return errors.Join(errs...)
}

// serve serves one client after the other.
func (s *Stock) serve(ctx context.Context, program string, port *os.File, log func(format string, v ...any)) error {
	for {
		said, began, err := s.once(ctx, program, port)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			log("%s: %s", s.Name, said)
		case !began:
			return fmt.Errorf("--stock %q: %s", s.Name, said)
		default:
			log("%s failed: %s", s.Name, said)
			tick.Wait(ctx, 50*time.Millisecond) // a flood of strangers is not to keep this machine busy
		}
	}
}

// once serves one client, and returns what came of it. began is false if it could not wait for one.
func (s *Stock) once(ctx context.Context, program string, port *os.File) (said string, began bool, err error) {
	runtime.LockOSThread() // the process gets a signal when the thread that started it ends
	defer runtime.UnlockOSThread()
	diag := &diagnosis{found: func(int) error { began = true; return nil }}
	var out output
	cmd := exec.CommandContext(ctx, program, slices.Concat(s.Args, []string{"--json", "--listen-fd", "3"})...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = &out, diag, []*os.File{port}
	cmd.WaitDelay = time.Second
	dieWithParent(cmd)
	if err = cmd.Run(); err != nil {
		return diag.told(err), began, err
	}
	return summary(out.Bytes()), began, nil
}

// summary returns the figures of a test in one line.
func summary(text []byte) string {
	var r result
	if err := json.Unmarshal(text, &r); err != nil {
		return "done"
	}
	line := fmt.Sprintf("%s, perftest %s", r.Peer.Address, r.Peer.Version)
	if n := len(r.Results); n > 0 && r.Results[n-1].P50 > 0 {
		line += fmt.Sprintf(": %d bytes, %.2f us", r.Results[n-1].Bytes, r.Results[n-1].P50/1e3)
	} else if n > 0 {
		line += fmt.Sprintf(": %d bytes, %.2f Gb/s", r.Results[n-1].Bytes, r.Results[n-1].Bits/1e9)
	}
	return strings.ReplaceAll(line, "\n", " ")
}
