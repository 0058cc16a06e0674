package agent

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// counted is a Runner that does nothing until its context ends, and counts.
type counted struct{ began, running atomic.Int32 }

func (c *counted) Run(ctx context.Context, _ Task, _ func(int) error) (Figures, error) {
	c.began.Add(1)
	c.running.Add(1)
	defer c.running.Add(-1)
	<-ctx.Done()
	return Figures{}, ctx.Err()
}

// TestHostileCoordinator: an agent that dialed a coordinator which has the token and does what none does ends with an
// error, or works on, and never runs more tests than it may. Whatever happens, it ends when the connection does.
func TestHostileCoordinator(t *testing.T) {
	const beat = 2 * time.Second
	welcome := message{Op: opWelcome, Beat: beat.Milliseconds()}
	params := test
	for _, tt := range []struct {
		name string
		says func(f *frames) // before it is silent
		want string          // in the error
		took time.Duration   // at most
		runs int32
		hear string // in what the agent says
	}{
		{name: "no word", says: func(*frames) {}, want: "nothing more came", took: StepLimit},
		{name: "unknown", says: func(f *frames) { f.send(message{Op: "dance"}) }, want: `"dance"`},
		{name: "no welcome", says: func(f *frames) { f.send(message{Op: opTest, Test: &params}) }, want: `"test"`},
		{name: "no heartbeat", says: func(f *frames) { f.send(message{Op: opWelcome}) }, want: "heartbeat 0s"},
		{name: "a heartbeat in a century", says: func(f *frames) { f.send(message{Op: opWelcome, Beat: 3e12}) },
			want: "invalid frame"},
		{name: "a negative one", says: func(f *frames) { f.send(message{Op: opWelcome, Beat: -5}) },
			want: "invalid frame"},
		{name: "half open", says: func(f *frames) { f.send(welcome) },
			want: "no heartbeat for 6s", took: 3*beat + glance},
		{name: "unknown, later", says: func(f *frames) { f.send(welcome); f.send(message{Op: "dance"}) },
			want: `"dance"`},
		{name: "as an agent", says: func(f *frames) { f.send(welcome); f.send(message{Op: opDone, ID: 1}) },
			want: `"done"`},
		{name: "welcome again", says: func(f *frames) { f.send(welcome); f.send(welcome) }, want: `"welcome"`},
		{name: "refused later", says: func(f *frames) { f.send(welcome); f.send(message{Op: opEnd, Error: "out"}) },
			want: "out"},
		{name: "no JSON", says: func(f *frames) { f.send(welcome); f.sendRaw([]byte("{")) }, want: "unexpected end"},
		{name: "JSON of other types", says: func(f *frames) {
			f.send(welcome)
			f.sendRaw([]byte(`{"op":[1],"id":-1}`))
		}, want: "json"},
		{name: "a MiB", says: func(f *frames) {
			f.send(welcome)
			f.send(message{Op: opTest, Host: strings.Repeat("x", 1<<20), Test: &params})
		}, want: "invalid frame"},
		{name: "deep", says: func(f *frames) {
			f.send(welcome)
			f.sendRaw([]byte(`{"op":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + "}"))
		}, want: "json"},
		{name: "4 GiB", says: func(f *frames) {
			f.send(welcome)
			f.Write(append(binary.BigEndian.AppendUint32(nil, 1<<32-1), make([]byte, 100)...))
		}, want: "invalid frame"},
		{name: "the half of a frame", says: func(f *frames) { f.send(welcome); f.Write(make([]byte, 2)) },
			want: "no heartbeat for 6s", took: 3*beat + glance},
		{name: "not encrypted", says: func(f *frames) { f.send(welcome); f.raw.Write([]byte("0123456789")) },
			want: "invalid frame"},
		{name: "no test in it", says: func(f *frames) { f.send(welcome); f.send(message{Op: opServe, ID: 1}) },
			hear: "no test", want: "no heartbeat", took: 3*beat + glance},
		{name: "a test too large", says: func(f *frames) {
			f.send(welcome)
			f.send(message{Op: opServe, ID: 1, Test: &wire.Params{Verb: wire.Write, Metric: wire.Bandwidth,
				Size: 1 << 62, QPs: 1 << 30, Iters: 1e18}})
		}, hear: "the agent refuses", want: "no heartbeat", took: 3*beat + glance},
		{name: "an option as host", says: func(f *frames) {
			f.send(welcome)
			f.send(message{Op: opTest, ID: 1, Test: &params, Host: "--help", Port: 1})
		}, hear: "neither a name nor an address", want: "no heartbeat", took: 3*beat + glance},
		{name: "one test twice", says: func(f *frames) {
			f.send(welcome)
			f.send(message{Op: opServe, ID: 1, Test: &params})
			f.send(message{Op: opServe, ID: 1, Test: &params})
		}, runs: 1, hear: "twice the same", want: "no heartbeat", took: 3*beat + glance},
		{name: "too many tests", says: func(f *frames) {
			f.send(welcome)
			for i := range 5000 {
				f.send(message{Op: opServe, ID: uint64(i), Test: &params})
			}
		}, runs: 2, hear: "too many tests", want: "no heartbeat", took: 3*beat + glance},
		{name: "the end of what never began", says: func(f *frames) {
			f.send(welcome)
			f.send(message{Op: opCancel, ID: 7})
		}, want: "no heartbeat", took: 3*beat + glance},
	} {
		synctest.Test(t, func(t *testing.T) {
			here, there := net.Pipe()
			r := &counted{}
			ended := make(chan error, 1)
			go func() {
				ended <- Attend(t.Context(), there, good, &Worker{Runner: r, Hello: Hello{Name: "n", Most: 2}})
			}()
			began := time.Now()
			f, err := authenticate(here, good)
			if err != nil {
				t.Fatal(err)
			}
			var heard bytes.Buffer
			go io.Copy(&heard, f)
			go tt.says(f)
			err = <-ended
			if spent := time.Since(began); err == nil || !strings.Contains(err.Error(), tt.want) || spent > tt.took {
				t.Errorf("%s: %v after %v, want %q within %v", tt.name, err, spent, tt.want, tt.took)
			}
			if r.began.Load() != tt.runs || r.running.Load() != 0 {
				t.Errorf("%s: %d tests began, %d run; want %d and 0", tt.name, r.began.Load(), r.running.Load(),
					tt.runs)
			}
			here.Close()
			synctest.Wait()
			if !strings.Contains(heard.String(), tt.hear) {
				t.Errorf("%s: no %q in what it says", tt.name, tt.hear)
			}
		})
	}
}

// sendRaw sends a frame with any content.
func (f *frames) sendRaw(body []byte) {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	f.Write(append(b, body...))
}

// TestIdleCoordinator: an agent stays as long as its coordinator lives, also without a test, and ends with it.
func TestIdleCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- Attend(t.Context(), there, good, &Worker{Hello: Hello{Name: "n"}}) }()
		r, err := Accept(t.Context(), here, good)
		if err == nil {
			err = r.Admit(t.Context(), 2*time.Second)
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		select {
		case err := <-ended:
			t.Fatalf("it has ended: %v", err)
		default:
		}
		r.Refuse("")
		if err := <-ended; err != nil {
			t.Error(err)
		}
		<-r.Ended()
	})
}

// TestMute: an agent that sends heartbeats, and answers nothing, is found out by a question.
func TestMute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		r := newRemote(Hello{}, newLink(&frames{Conn: here, raw: here}, time.Second))
		if err := r.Admit(t.Context(), time.Second); err == nil {
			t.Error("nobody reads, and it is admitted")
		}
		go io.Copy(io.Discard, there)
		here, there = net.Pipe()
		r.link = newLink(&frames{Conn: here, raw: here}, time.Second)
		go io.Copy(io.Discard, there)
		ctx, cancel := context.WithCancel(t.Context())
		agent := newLink(&frames{Conn: there, raw: there}, time.Second)
		var wg sync.WaitGroup
		wg.Go(func() {
			for agent.send(message{Op: opBeat}) == nil {
				time.Sleep(time.Second)
			}
		})
		if err := r.Admit(ctx, time.Second); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := r.Ask(ctx, 10*time.Second); !errors.Is(err, ErrMute) || time.Since(began) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if list := r.Silences(); !slices.Equal(list, nil) {
			t.Errorf("silent %v, though nobody asked for silences", list)
		}
		cancel()
		<-r.Ended()
		there.Close()
		wg.Wait()
	})
}

// TestEar keeps the longest silences, and the one that lasts.
func TestEar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &ear{bound: time.Second}
		if e.silences() != nil {
			t.Error("silent before anything came")
		}
		for i := range 100 {
			e.hear()
			time.Sleep(time.Duration(i) * 100 * time.Millisecond)
		}
		list := e.silences()
		var got []string
		for _, s := range list {
			got = append(got, fmt.Sprint(s.Time().Seconds()))
		}
		if len(list) != mostSilences+1 || got[0] != "8.3" || got[mostSilences] != "9.9" {
			t.Errorf("silent for %s", got)
		}
		e.hear()
		if list := e.silences(); len(list) != mostSilences {
			t.Errorf("%d silences are kept", len(list))
		}
	})
}
