// Package launch runs the command that starts the agents of a mesh on their hosts, such as srun, mpirun or a script.
package launch

import (
	"bytes"
	"cmp"
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
	tty   terminal
	gone  chan struct{} // closed before Ended has it
	err   error
	said  tail
	read  chan struct{} // closed when all that it and its agents wrote is read
}

// Start runs a command of the shell with words behind it; the command may place them itself as "$@". The environment is
// added to that of this process. show gets each line that the launcher and its agents write, on a goroutine of its own,
// and reports whether the user has seen it.
func Start(command string, words, env []string, show func(line string) bool) (*Launch, error) {
	if !strings.Contains(command, "$@") {
		command += ` "$@"`
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	ended := make(chan error, 1)
	l := &Launch{Ended: ended, gone: make(chan struct{}), read: make(chan struct{}), said: tail{show: show}}
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
		refused := l.tty.watch(l.cmd.Process.Pid)
		l.err = cmp.Or(refused, l.cmd.Wait())
		l.tty.over(l.cmd.ProcessState)
		close(l.gone) // so that Said waits for what was written, once Ended has the outcome
		ended <- l.err
	}()
	return l, nil
}

// TakeTerminal takes the terminal back from a launcher that asked something on it, once its agents are at work.
func (l *Launch) TakeTerminal() { l.tty.takeBack() }

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

// Said returns the last lines that the launcher and its agents wrote, without those that the user has seen.
func (l *Launch) Said() []string {
	select {
	case <-l.gone:
		l.wait(200 * time.Millisecond)
	default:
	}
	return l.said.lines()
}

// tail shows lines as they are written, and keeps the last ones that were not shown.
type tail struct {
	show func(line string) bool
	mu   sync.Mutex
	part []byte // of a line that has no end yet
	kept []string
}

const (
	mostLines = 20
	mostLine  = 4 << 10 // longer ones are divided
)

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for text := range bytes.Lines(b) {
		for len(text) > 0 {
			n := min(len(text), mostLine-len(t.part))
			t.part, text = append(t.part, text[:n]...), text[n:]
			if t.part[len(t.part)-1] == '\n' || len(t.part) == mostLine {
				t.end()
			}
		}
	}
	return len(b), nil
}

// end ends a line.
func (t *tail) end() {
	line := strings.TrimSpace(string(t.part))
	t.part = t.part[:0]
	if line != "" && !t.show(line) {
		t.kept = append(t.kept, line)
		t.kept = t.kept[max(0, len(t.kept)-mostLines):]
	}
}

func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end()
	return append([]string(nil), t.kept...)
}
