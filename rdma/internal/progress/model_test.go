package progress

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pureverbs/pureverbs/internal/testutil/steps"
)

// A model of the package: a poller, up to three goroutines that wait, the timer, the device, and contexts that end, in
// all orders of their steps. The goroutines run the source of the package, which steps compiles. This file has what
// they share: the word, the CQ, signals and channels. Decisions by a clock, or by luck, are taken in every way.

const (
	modelWaiters = 3
	modelPoller  = 3
	modelTimer   = 4
	modelEnd     = 5 // of the connections
	modelStop    = 6
	modelActors  = 7
)

// Channels of the model.
const (
	chPromote steps.Value = 1 + iota
	chEviction
	chHandover
	chLeft
	chNext // of the turns of a manual Progress
	chNext2
	chRun                              // Done of Run's context
	chSignal                           // of each goroutine, as the next
	chDone   = chSignal + modelWaiters // of its context
	chLate   = chDone + modelWaiters   // of its deadline, and of the one to which that is moved
	chWait   = chLate + 2*modelWaiters // what it waits for, without a Signal
	chCaught = chWait + modelWaiters   // made by CatchUp
	chEnd    = chCaught + 2*modelWaiters
)

// buffered are the channels with room for one.
const buffered = 1<<chPromote | 1<<chEviction | 1<<chHandover | 1<<chNext | 1<<chNext2 | (1<<modelWaiters-1)<<chSignal

// Errors of the model.
const (
	errModelBroken steps.Value = 1 + iota
	errModelDone
	errModelLate
	errModelOther
)

// world is a state of the model.
type world struct {
	word   state
	holder uint8 // 1 plus the actor that has the turn
	armed  bool
	// The device.
	queue              [modelWaiters]uint8 // completions, by whom they are for
	on, raising, there bool                // armed; an event is under way; it can be read
	intrd              bool                // Interrupt was called
	read               bool                // an event was read, and Events was not called since

	signal [modelWaiters]uint8
	inbox  [modelWaiters]uint8
	posts  [modelWaiters]uint8 // to come
	got    [modelWaiters]uint8
	moved  [modelWaiters]bool // the deadline

	full, closed uint32 // channels
	evicts       uint16 // the value in chEviction
	ends         uint16
	asked        bool
	asking       bool    // askMu is locked
	users        [2]int8 // of the turns of a manual Progress: manual, polling
	events       uint8
	caught, made uint8 // channels of CatchUp
	timer        bool
	once         uint8

	broken, gone     bool // the source; the connections
	hooked, stopping bool // the end of Run's context is to interrupt, and is about to
	stops, stopped   bool // Stop was called, and is over

	open [modelWaiters]uint8               // completions that are not handled
	need [modelWaiters][modelWaiters]uint8 // those of them that CatchUp waits for

	actors [modelActors]steps.At
}

// what is what a goroutine of the model does.
type what uint8

const (
	absent what = iota
	receives
	waits
	meantime
	catches
	polls // it is the program of a manual Progress
)

// modelRun is what there is in a run of the model.
type modelRun struct {
	does    [modelWaiters]what  // 0: it receives, if there are posts
	posts   [modelWaiters]uint8 // messages for each goroutine
	expires [modelWaiters]bool  // its context may end
	late    [modelWaiters]bool  // its deadline may pass, and be moved then
	spins   [modelWaiters]bool
	manual  bool
	leads   bool // a goroutine that waits may read events
	eager   bool // the device raises an event for what was there when it was armed
	breaks  bool // the source may fail: it can be polled and armed no more
	deaf    bool // and its events do not end
	stops   bool // Run's context may end, after all connections have

	edits   []edit // of the source
	without []steps.Statement

	programs [modelActors]*steps.Program[world]
	catching bool
}

// edit replaces text in a file of the package.
type edit struct{ file, old, new string }

var stubs = map[string]string{
	"context": `package context
		import "time"
		type Context interface { Done() <-chan struct{}; Err() error; Deadline() (time.Time, bool) }
		type CancelFunc func()
		func WithCancel(Context) (Context, CancelFunc)
		func Background() Context
		func AfterFunc(Context, func()) (stop func() bool)`,
	"sync": `package sync
		type Mutex struct{}
		func (*Mutex) Lock()
		func (*Mutex) Unlock()
		type Once struct{}
		func (*Once) Do(func())`,
	"sync/atomic": `package atomic
		type Bool struct{}
		func (*Bool) Load() bool
		func (*Bool) Store(bool)
		type Int32 struct{}
		func (*Int32) Load() int32
		func (*Int32) Store(int32)
		func (*Int32) Add(int32) int32
		func (*Int32) CompareAndSwap(old, new int32) bool
		type Int64 struct{}
		func (*Int64) Swap(int64) int64
		type Uint32 struct{}
		func (*Uint32) Load() uint32
		func (*Uint32) Store(uint32)
		func (*Uint32) Add(uint32) uint32
		func (*Uint32) Swap(uint32) uint32
		func (*Uint32) CompareAndSwap(old, new uint32) bool
		type Uint64 struct{}
		func (*Uint64) Load() uint64
		func (*Uint64) Add(uint64) uint64`,
	"time": `package time
		type Duration int64
		const (Nanosecond Duration = 1; Microsecond = 1000*Nanosecond; Millisecond = 1000*Microsecond
			Second = 1000*Millisecond; Hour = 3600*Second)
		type Time struct{}
		func Now() Time
		func Since(Time) Duration
		func Sleep(Duration)
		func After(Duration) <-chan Time
		type Timer struct{}
		func AfterFunc(Duration, func()) *Timer
		func (*Timer) Reset(Duration) bool
		func (*Timer) Stop() bool`,
	"runtime": "package runtime; func Gosched(); func GOMAXPROCS(int) int",
	"fmt":     "package fmt; func Sprintf(string, ...any) string",
	"errors":  "package errors; func New(string) error",
	"os":      `package os; import "errors"; var ErrDeadlineExceeded = errors.New("")`,
	"github.com/pureverbs/pureverbs/internal/deadline": `package deadline
		type Deadline struct{}
		func (*Deadline) Past() <-chan struct{}
		func IsClosed(<-chan struct{}) bool`,
}

const rdmaInternal = "github.com/pureverbs/pureverbs/rdma/internal/"

// modelFiles are those of the package that the model runs.
var modelFiles = []string{"core.go", "cover.go", "lead.go", "manual.go", "progress.go", "signal.go", "spin.go",
	"state.go"}

// source loads the source of the package, with edits.
func source(edits []edit) (*steps.Source, error) {
	read := func(names ...string) (map[string]string, error) {
		files := make(map[string]string)
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			files[filepath.Base(name)] = string(b)
		}
		return files, nil
	}
	bound, err := read("../turn/bound.go", "../turn/turn.go")
	if err != nil {
		return nil, err
	}
	files, err := read(append([]string{"model_actors_test.go", "yield_others.go"}, modelFiles...)...)
	if err != nil {
		return nil, err
	}
	files["model_test.go"] = fmt.Sprintf("package progress; const modelWaiters = %d", modelWaiters)
	for _, e := range edits {
		if strings.Count(files[e.file], e.old) != 1 {
			return nil, fmt.Errorf("%s has %d times %q", e.file, strings.Count(files[e.file], e.old), e.old)
		}
		files[e.file] = strings.Replace(files[e.file], e.old, e.new, 1)
	}
	return steps.Load(stubs, steps.Package{Path: rdmaInternal + "turn", Files: bound},
		steps.Package{Path: rdmaInternal + "progress", Files: files})
}

// compile compiles what the goroutines of a run do.
func (r *modelRun) compile() error {
	src, err := source(r.edits)
	if err != nil {
		return err
	}
	m := r.model()
	const p = 1 // the Progress, and whatever there is one of
	add := func(i int, name string, args ...steps.Value) {
		if err == nil {
			r.programs[i], err = steps.Compile(src, m, name, args, r.without...)
		}
	}
	for i := range modelWaiters {
		n := steps.Value(i)
		b := steps.Pack(steps.Bool(r.expires[i])*(n+1), steps.Bool(r.late[i])*(n+1), 0)
		switch what := r.does[i]; {
		case what == waits:
			add(i, "waiterFor", p, n, b)
		case what == meantime:
			add(i, "meanwhile", p, n)
		case what == catches:
			r.catching = true
			add(i, "catcher", p, n, 0)
		case what == polls:
			add(i, "program", p, n+1)
		case r.posts[i] > 0:
			r.does[i] = receives
			add(i, "receiver", p, n, n+1, b, steps.Bool(r.spins[i]))
		}
	}
	add(modelEnd, "endAll")
	add(modelStop, "stopper", p)
	if !r.manual {
		add(modelPoller, "runner", p, runContext)
		add(modelTimer, "looker", p)
	}
	return err
}

// first returns the state in which a run begins.
func (r *modelRun) first(m *steps.Machine[world]) world {
	w := world{posts: r.posts, armed: true, on: true}
	m.World = &w
	for i, p := range r.programs {
		if m.Actor = i; p != nil && i <= modelPoller {
			w.actors[i] = p.Start(m)
		}
	}
	return w
}
