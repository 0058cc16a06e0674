package command

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/tick"
)

// retryDevice is the time between two attempts to use a device that is not there.
const retryDevice = 5 * time.Second

// await returns a worker that can run tests. Below systemd it waits for one, because an adapter may come minutes after
// boot; it returns nil if ctx ends first. Otherwise the first attempt decides.
func (a *agentOptions) await(ctx context.Context, log func(string, ...any)) (*agent.Worker, agent.Child, error) {
	for told := ""; ; {
		w, child, err := a.worker(ctx)
		switch {
		case err != nil:
			return nil, child, err
		case w.Problem == "":
			return w, child, nil
		case ctx.Err() != nil:
			return nil, child, nil
		case !agent.Supervised():
			return nil, child, errors.New(w.Problem)
		}
		if w.Problem != told {
			told = w.Problem
			log("waiting: %s", told)
			if err := agent.NotifyWaiting(told); err != nil {
				return nil, child, err
			}
		}
		if !tick.Wait(ctx, retryDevice) {
			return nil, child, nil
		}
	}
}

// renew reads the token again whenever SIGHUP comes, until the function that it returns is called. Tests and meshes
// that are under way go on. What comes from standard input comes once.
func renew(into *atomic.Pointer[agent.Token], file string, log func(string, ...any)) (stop func()) {
	if file == "" || agent.FromStdin(file) {
		return func() {}
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range hup {
			t, err := agent.ReadToken(file)
			if err != nil {
				log("the token stays as it was: %v", err)
				continue
			}
			into.Store(&t)
			log("read the token again")
		}
	}()
	return func() {
		signal.Stop(hup)
		close(hup)
		<-ended
	}
}
