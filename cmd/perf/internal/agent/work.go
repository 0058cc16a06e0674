package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// Task is one end of a test.
type Task struct {
	Test    wire.Params
	NIC     string   // empty: the only one
	Options []string // of rdmaperf, of this NIC
	Host    string   // of the server, or its addresses as for wire.DialTCP; empty: be the server
	Port    int
	Alone   bool // this host has no other test at the same time
}

// Server reports whether this is the server's end.
func (t *Task) Server() bool { return t.Host == "" }

// String describes it for people.
func (t *Task) String() string {
	s := fmt.Sprintf("server of %v %v", t.Test.Verb, t.Test.Metric)
	if !t.Server() {
		s = fmt.Sprintf("client of %v %v at %s", t.Test.Verb, t.Test.Metric, t.Host)
	}
	if t.NIC != "" {
		s += " by " + t.NIC
	}
	return s
}

// outcome describes what came of it.
func (t *Task) outcome(ctx context.Context, f Figures, err error) string {
	switch {
	case err == nil && f.Bits > 0:
		return fmt.Sprintf("%.2f Gb/s", f.Bits/1e9)
	case err == nil && f.P50 > 0:
		return fmt.Sprintf("%.2f us", f.P50/1e3)
	case err == nil:
		return "done"
	case ctx.Err() != nil:
		return "ended by the mesh"
	}
	return err.Error()
}

// Runner runs tests, several at a time.
type Runner interface {
	// Run runs one end until it is over, or ctx ends. listening gets the port of a server. Figures.CPU is returned with
	// an error as well.
	Run(ctx context.Context, t Task, listening func(port int) error) (Figures, error)
}

// Worker is an agent in a mesh.
type Worker struct {
	Hello
	Runner Runner
	Look   func() []NIC                  // returns the NICs as they are now; nil: they are those of Hello
	Log    func(format string, v ...any) // of tests; may be nil
	slots  chan struct{}
}

// prepare gives an agent a name of its own, and room for tests.
func (w *Worker) prepare() {
	w.ID, w.slots = rand.Text(), make(chan struct{}, max(w.Most, 1))
	if len(w.NICs) == 0 {
		w.NICs = []NIC{{}}
	}
}

// refusal is the coordinator's reason to leave an agent out.
type refusal string

func (r refusal) Error() string { return string(r) }

// unmetError is a connection that ended before the coordinator said whether it takes the agent.
type unmetError struct{ error }

func (e *unmetError) Unwrap() error { return e.error }

// work does what the coordinator wants until it ends the mesh, which is no error.
func (w *Worker) work(ctx context.Context, f *frames) error {
	hello := w.Hello
	if w.Look != nil {
		hello.Have(w.Look())
	}
	f.SetDeadline(time.Now().Add(StepLimit))
	if err := f.send(message{Op: opJoin, Hello: &hello}); err != nil {
		return &unmetError{err}
	}
	var m message
	stop := context.AfterFunc(ctx, func() { f.Close() })
	err := f.receive(&m, maxRequest)
	stop()
	beat := time.Duration(m.Beat) * time.Millisecond
	switch {
	case err != nil:
		return &unmetError{&StepError{"the token is proved, and this host is introduced", err}}
	case m.Op == opEnd && m.Error == "":
		return nil
	case m.Op == opEnd:
		return refusal(fmt.Sprintf("%.1000s", m.Error))
	case m.Op != opWelcome || beat < leastBeat || beat > mostBeat:
		return fmt.Errorf("%w: %.20q, heartbeat %v", ErrFrame, m.Op, beat)
	}
	f.SetDeadline(time.Time{})
	j := &job{Worker: w, hello: hello, link: newLink(f, beat), tests: map[uint64]context.CancelFunc{}}
	j.link.beat = Pace(beat)
	ctx, cancel := context.WithCancel(ctx)
	defer j.wg.Wait()
	defer cancel()
	err = j.link.live(ctx, func(m message) error { return j.take(ctx, m) })
	if errors.Is(err, errOver) {
		return nil
	}
	if ctx.Err() != nil { // told to end, here
		return nil
	}
	return fmt.Errorf("the coordinator: %w", err)
}

var errOver = errors.New("the mesh is over")

// job is an agent at work for one coordinator.
type job struct {
	*Worker
	hello Hello // as it was said
	link  *link
	wg    sync.WaitGroup
	mu    sync.Mutex
	tests map[uint64]context.CancelFunc
}

// take begins what a message of the coordinator asks for.
func (j *job) take(ctx context.Context, m message) error {
	switch m.Op {
	case opAsk:
		return j.link.send(message{Op: opHere, ID: m.ID})
	case opCancel:
		j.mu.Lock()
		defer j.mu.Unlock()
		if end := j.tests[m.ID]; end != nil {
			end()
		}
		return nil
	case opEnd:
		if m.Error != "" {
			return refusal(fmt.Sprintf("%.1000s", m.Error))
		}
		return errOver
	case opServe, opTest:
	default:
		return fmt.Errorf("%w: operation %.20q", ErrFrame, m.Op)
	}
	t, err := m.task()
	if err == nil {
		t.Options, err = j.hello.options(m.NIC)
	}
	if err != nil {
		return j.link.send(message{Op: opDone, ID: m.ID, Error: err.Error()})
	}
	own, end := context.WithCancel(ctx)
	j.mu.Lock()
	_, twice := j.tests[m.ID]
	crowd := len(j.tests) >= mostWaiting
	if !twice && !crowd {
		j.tests[m.ID] = end
	}
	j.mu.Unlock()
	if twice || crowd {
		end()
		return j.link.send(message{Op: opDone, ID: m.ID, Error: "too many tests, or twice the same"})
	}
	j.wg.Go(func() {
		defer func() {
			end()
			j.mu.Lock()
			delete(j.tests, m.ID)
			j.mu.Unlock()
		}()
		j.run(ctx, own, m.ID, t)
	})
	return nil
}

// task checks what the coordinator wants to have run.
func (m *message) task() (t Task, err error) {
	if m.Test == nil {
		return t, errors.New("no test")
	}
	if err := CheckTest(*m.Test); err != nil {
		return t, err
	}
	t = Task{Test: *m.Test, NIC: m.NIC, Alone: m.Alone}
	if m.Op == opServe {
		return t, nil
	}
	t.Host, t.Port = m.Host, m.Port
	return t, checkServer(m.Host, m.Port)
}

// run runs one test, as soon as there is room for it. ctx, which ends after all, is the test's own.
func (j *job) run(all, ctx context.Context, id uint64, t Task) {
	select {
	case j.slots <- struct{}{}:
		defer func() { <-j.slots }()
	case <-ctx.Done():
	}
	if all.Err() != nil { // there may be room because all ends
		return
	}
	if ctx.Err() != nil {
		j.link.send(message{Op: opDone, ID: id, Error: ctx.Err().Error()})
		return
	}
	began := time.Now()
	f, err := j.Runner.Run(ctx, t, func(port int) error { return j.link.send(message{Op: opPort, ID: id, Port: port}) })
	if j.Log != nil {
		j.Log("%v: %v, %.2f s: %s", j.link.f.RemoteAddr(), &t, time.Since(began).Seconds(), t.outcome(ctx, f, err))
	}
	m := message{Op: opDone, ID: id, Figures: &f, CPU: f.CPU}
	if err == nil && !t.Server() {
		err = f.check(t.Test.Metric) // JSON has no word for some
	}
	if err != nil {
		m.Figures, m.Error, m.Unmet = nil, fmt.Sprintf("%.1000s", err), unmet(err)
	}
	j.link.send(m)
}

// unmet reports whether a test failed before its NICs had a part in it: its ends did not meet, or the host has no
// descriptors or no memory for it.
func unmet(err error) bool {
	meet := (*wire.MeetError)(nil)
	return errors.As(err, &meet) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) ||
		errors.Is(err, syscall.ENOMEM)
}
