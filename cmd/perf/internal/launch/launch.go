// Package launch runs the command that starts the agents of a mesh on their hosts, such as srun, mpirun or a script.
package launch

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Launch is a launcher at work.
type Launch struct {
	Ended <-chan error // gets its outcome, once
	cmd   *exec.Cmd
	gone  chan struct{} // closed after Ended has it
	err   error
	said  tail
	read  chan struct{} // closed when all that it and its agents wrote is read
}

// Start runs a command of the shell with words behind it; the command may place them itself as "$@". The environment is
// added to that of this process.
func Start(command string, words, env []string) (*Launch, error) {
	if !strings.Contains(command, "$@") {
		command += ` "$@"`
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	ended := make(chan error, 1)
	l := &Launch{Ended: ended, gone: make(chan struct{}), read: make(chan struct{})}
	l.cmd = exec.Command("/bin/sh", append([]string{"-c", command, "sh"}, words...)...)
	l.cmd.Env = append(os.Environ(), env...)
	l.cmd.Stdout, l.cmd.Stderr = w, w // results are this program's alone
	ownGroup(l.cmd)
	if err := l.cmd.Start(); err != nil {
		r.Close()
		return nil, err
	}
	go func() {
		io.Copy(&l.said, r)
		r.Close()
		close(l.read)
	}()
	go func() {
		l.err = l.cmd.Wait()
		ended <- l.err
		close(l.gone)
	}()
	return l, nil
}

// Grace is how long a launcher has to end by itself when its agents have, and again when it is told to.
const Grace = 5 * time.Second

// Stop waits until the launcher ends, for grace or until ctx ends, and then ends it and what it started here. It
// returns its outcome.
func (l *Launch) Stop(ctx context.Context, grace time.Duration) error {
	for _, end := range []func(*exec.Cmd){terminate, kill} {
		select {
		case <-l.gone:
			l.wait(time.Second)
			return l.err
		case <-time.After(grace):
		case <-ctx.Done():
			ctx = context.WithoutCancel(ctx)
		}
		end(l.cmd)
	}
	<-l.gone
	l.wait(time.Second)
	return l.err
}

// wait lets what was written be read. Agents in the background may keep the pipe open.
func (l *Launch) wait(limit time.Duration) {
	select {
	case <-l.read:
	case <-time.After(limit):
	}
}

// Said returns the last lines that the launcher and its agents wrote.
func (l *Launch) Said() []string {
	select {
	case <-l.gone:
		l.wait(200 * time.Millisecond)
	default:
	}
	return l.said.lines()
}

// tail keeps the last lines of what is written.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const (
	mostLines = 20
	mostText  = 8 << 10
)

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[max(0, len(b)-mostText):]...)
	t.text = t.text[max(0, len(t.text)-mostText):]
	return len(b), nil
}

func (t *tail) lines() (list []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for line := range bytes.Lines(t.text) {
		if s := strings.TrimSpace(string(line)); s != "" {
			list = append(list, s)
		}
	}
	return list[max(0, len(list)-mostLines):]
}
