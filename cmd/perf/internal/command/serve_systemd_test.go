package command

import (
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
)

// TestRenewStdin: SIGHUP does not have an agent wait for a second token on standard input, and so not end.
func TestRenewStdin(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	defer func(f *os.File) { os.Stdin = f }(os.Stdin)
	os.Stdin = r
	own := make(chan os.Signal, 1) // without it, the signal would end this process
	signal.Notify(own, syscall.SIGHUP)
	defer signal.Stop(own)
	stop := renew(new(atomic.Pointer[agent.Token]), "/dev/stdin", t.Logf)
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	<-own
	stuck := time.AfterFunc(time.Minute, func() {
		t.Error("it waits for standard input")
		w.Close()
	})
	stop()
	stuck.Stop()
}
