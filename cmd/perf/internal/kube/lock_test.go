package kube

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestLockTwo: of two runs that begin at the same moment, in either order, one has the Lease. The other one says who
// has it, and gets it when the first one gives it back.
func TestLockTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.delay = func() time.Duration { return 100 * time.Millisecond } // both read before one writes
		type taken struct {
			id      string
			release func() error
			after   time.Duration
		}
		got, start := make(chan taken), time.Now()
		said := map[string]*lines{"a": {}, "b": {}}
		for id, s := range said {
			go func() {
				_, release, err := f.lock(t, id, time.Hour, s).Take(t.Context())
				if err != nil {
					t.Error(err)
				}
				got <- taken{id, release, time.Since(start)}
			}()
		}
		first := <-got
		time.Sleep(5 * time.Minute)
		select {
		case second := <-got:
			t.Fatalf("%s took the Lease of %s", second.id, first.id)
		default:
		}
		if h := f.holder(); h != first.id {
			t.Errorf("the Lease says %q, want %q", h, first.id)
		}
		if err := first.release(); err != nil {
			t.Error(err)
		}
		second := <-got
		if second.id == first.id || second.after < 5*time.Minute || second.after > 5*time.Minute+5*time.Second {
			t.Errorf("%+v after %+v", second, first)
		}
		if text := said[first.id].text(); text != "" {
			t.Errorf("the first one said %q", text)
		}
		waits := said[second.id]
		if text := waits.text(); strings.Count(text, "\n") != 0 || waits.all < 100 ||
			!strings.Contains(text, "the run "+first.id+" has the nodes (Lease rdmaperf/rdmaperf-mesh, since 2") {
			t.Errorf("the second one said %q, and %d lines", text, waits.all)
		}
		if err := second.release(); err != nil || f.holder() != "" {
			t.Errorf("%v, the Lease says %q", err, f.holder())
		}
	})
}

// TestLockHeld: a run waits for as long as it may, for a holder that is alive, and takes the Lease of one that is gone
// after its time; the clock of the holder counts for nothing.
func TestLockHeld(t *testing.T) {
	hour := func(h int) string { return time.Date(2000, 1, 1, h, 0, 0, 0, time.UTC).Format(microTime) }
	for name, tt := range map[string]struct {
		seconds int
		wait    time.Duration
		renews  func(i int) string // nil: it was killed
		after   time.Duration      // took it; else it gave up after wait
	}{
		"killed":                         {30, time.Minute, nil, 30 * time.Second},
		"killed, of an unknown duration": {0, time.Minute, nil, 30 * time.Second},
		"killed, of a long duration":     {3600, 2 * time.Hour, nil, time.Hour},
		"killed, of an absurd duration":  {1 << 40, time.Hour, nil, 0},
		"alive":                          {30, time.Minute, func(i int) string { return hour(1) + fmt.Sprint(i) }, 0},
		"alive, and not waited for":      {30, 0, func(i int) string { return hour(1) + fmt.Sprint(i) }, 0},
		"alive, with a clock that stands at two hours": {30, time.Minute, func(i int) string { return hour(i % 2) },
			0},
		"killed, and not waited for long enough": {30, 29 * time.Second, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.have("other", hour(0), tt.seconds, true)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.renews != nil {
					go func() {
						for i := 0; ctx.Err() == nil; i++ {
							f.have("other", tt.renews(i), tt.seconds, true)
							select {
							case <-time.After(10 * time.Second):
							case <-ctx.Done():
							}
						}
					}()
					synctest.Wait()
				}
				start := time.Now()
				_, release, err := f.lock(t, "me", tt.wait, &lines{}).Take(t.Context())
				took := time.Since(start)
				if tt.after > 0 {
					if err != nil || took != tt.after {
						t.Fatalf("%v after %v, want the Lease after %v", err, took, tt.after)
					}
					release()
					return
				}
				held := "the run other has the nodes (Lease rdmaperf/rdmaperf-mesh, since "
				if tt.wait > 0 {
					held = fmt.Sprintf("the run other still has the nodes after %v (Lease rdmaperf/rdmaperf-mesh, "+
						"since ", tt.wait)
				}
				if err == nil || !strings.HasPrefix(err.Error(), held) ||
					!strings.HasSuffix(err.Error(), "); wait longer with --lease-wait") || took != tt.wait ||
					f.holder() != "other" {
					t.Errorf("%v after %v; the Lease says %q", err, took, f.holder())
				}
			})
		})
	}
}

// TestLockKeeps: what is in the object stays there, and the Lease is renewed.
func TestLockKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.have("", "", 1, false)
		held, release, err := f.lock(t, "me", 0, &lines{}).Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if held.Err() != nil {
			t.Errorf("lost: %v", context.Cause(held))
		}
		if n := f.count(); n < 720 || n > 723 {
			t.Errorf("%d requests in an hour, want one in 5 s", n)
		}
		f.mu.Lock()
		o := f.objects[leases+"/rdmaperf-mesh"]
		labels := at(o, "metadata", "labels")
		if labels["team"] != "net" || labels[Label] != "rdmaperf-mesh" || at(o, "metadata")["managedFields"] != nil ||
			at(o, "spec")["leaseDurationSeconds"] != 30.0 || at(o, "spec")["leaseTransitions"] != 1.0 {
			t.Errorf("%v", o)
		}
		f.mu.Unlock()
		if err := release(); err != nil || f.holder() != "" || held.Err() == nil {
			t.Errorf("%v, the Lease says %q", err, f.holder())
		}
	})
}

// TestLockRefused: what the API server says instead of giving a Lease, and how a run ends.
func TestLockRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		method string // whose replies these are; "": all
		code   int
		body   string
		times  int // 0: always
		want   string
		most   time.Duration // until then it has ended
	}{
		"no Role": {"", 403, `{"message":"User \"x\" cannot get"}`, 0, `cannot get; the Role rdmaperf-mesh`,
			0},
		"no right to make": {"POST", 403, `{"message":"cannot create"}`, 0, "cannot create; the Role rdmaperf-mesh", 0},
		"no namespace": {"POST", 404, `{"message":"namespaces \"rdmaperf\" not found"}`, 0, `"rdmaperf" not found`,
			0},
		"no such version": {"POST", 404, "404 page not found", 0, `"404 page not found"`, 0},
		"invalid":         {"POST", 422, `{"message":"is invalid"}`, 0, "is invalid", 0},
		"a redirect":      {"", 302, "", 0, "302 Found", 0},
		"overloaded":      {"", 429, `1 pause {"message":"too many"}`, 3, "", 10 * time.Second},
		"overloaded, asks for long": {"", 429, `3600 pause {"message":"too many"}`, 2, "",
			25 * time.Second},
		"overloaded for ever": {"", 429, `1 pause {}`, 0, "429 Too Many Requests", 40 * time.Second},
		"failing":             {"", 500, `{"message":"etcd"}`, 4, "", 10 * time.Second},
		"failing for ever":    {"", 503, `no`, 0, `503 Service Unavailable: "no"`, 40 * time.Second},
		"the token is old":    {"", 401, `{"message":"Unauthorized"}`, 1, "", 5 * time.Second},
		"the token is wrong":  {"", 401, `{"message":"Unauthorized"}`, 0, "Unauthorized", 40 * time.Second},
		"hangs":               {"", hangs, "", 2, "", 20 * time.Second},
		"hangs for ever":      {"", hangs, "", 0, "no reply within 5s", 45 * time.Second},
		"garbage":             {"", 200, "<html>", 3, "", 10 * time.Second},
		"garbage for ever":    {"", 200, "<html>", 0, "no object", 40 * time.Second},
		"another object":      {"", 200, `{"kind":"Status"}`, 0, `is a "Status"`, 40 * time.Second},
		"no version":          {"", 200, `{"kind":"Lease"}`, 0, `version ""`, 40 * time.Second},
		"null":                {"", 200, `null`, 0, `is a ""`, 40 * time.Second},
		"wrong types": {"", 200, `{"kind":"Lease","spec":{"leaseDurationSeconds":"x"}}`, 0, "no object",
			40 * time.Second},
		"endless":              {"", 200, strings.Repeat(" ", mostReply+10), 0, "more than", 40 * time.Second},
		"a control character":  {"", 403, `{"message":"\u001b[2J"}`, 0, "the Role", 0},
		"conflicts for a time": {"POST", 409, `{}`, 3, "", 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, n := newFake(), 0
				f.fault = func(method, _ string) (int, string, bool) {
					if tt.method != "" && method != tt.method || tt.times > 0 && n >= tt.times {
						return 0, "", false
					}
					n++
					return tt.code, tt.body, false
				}
				start := time.Now()
				_, release, err := f.lock(t, "me", time.Hour, &lines{}).Take(t.Context())
				took := time.Since(start)
				if err == nil {
					release()
				}
				if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) ||
					took > tt.most+2*requests {
					t.Errorf("%v after %v, want %q within %v", err, took, tt.want, tt.most)
				}
			})
		})
	}
}

// TestLockForeign: the Lease of something else is not taken, also when nobody renews it.
func TestLockForeign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.have("kube-scheduler_1", "then", 15, false)
		_, _, err := f.lock(t, "me", time.Hour, &lines{}).Take(t.Context())
		if err == nil || !strings.Contains(err.Error(), "belongs to kube-scheduler_1") ||
			f.holder() != "kube-scheduler_1" {
			t.Errorf("%v; the Lease says %q", err, f.holder())
		}
	})
}

// TestLockLost: a run that cannot renew its Lease ends before another one may have it.
func TestLockLost(t *testing.T) {
	for name, tt := range map[string]struct {
		code int
		body string
		want string
	}{
		"refused":  {403, `{"message":"cannot update"}`, "cannot update"},
		"failing":  {500, `{"message":"etcd"}`, "etcd"},
		"hangs":    {hangs, "", "no reply within 5s"},
		"garbage":  {200, "x", "no object"},
		"takeover": {0, "", "another has it now"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				held, release, err := f.lock(t, "me", 0, &lines{}).Take(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute - time.Second) // 4 s after it was renewed
				f.mu.Lock()
				f.fault = func(string, string) (int, string, bool) { return tt.code, tt.body, false }
				f.mu.Unlock()
				if tt.code == 0 {
					f.have("another", "now", 30, true)
				}
				start := time.Now()
				<-held.Done()
				lost := (*LostError)(nil)
				if cause := context.Cause(held); !errors.As(cause, &lost) || !strings.Contains(cause.Error(), tt.want) {
					t.Errorf("%v, want %s", cause, tt.want)
				}
				if took := time.Since(start); took+4*time.Second >= Duration {
					t.Errorf("it ended %v after the last renewal", took+4*time.Second)
				}
				n := f.count()
				if err := release(); err != nil || f.count() != n {
					t.Errorf("it gave a Lease back that it has not: %v", err)
				}
			})
		})
	}
}

// TestLockOutage: an outage that is shorter than the Lease harms nobody.
func TestLockOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		held, release, err := f.lock(t, "me", 0, &lines{}).Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			f.mu.Lock()
			f.fault = func(string, string) (int, string, bool) { return []int{500, hangs, 429}[i%3], "{}", i%2 == 0 }
			f.mu.Unlock()
			time.Sleep(12 * time.Second)
			f.mu.Lock()
			f.fault = nil
			f.mu.Unlock()
			time.Sleep(time.Minute)
		}
		if held.Err() != nil || f.holder() != "me" {
			t.Errorf("%v; the Lease says %q", context.Cause(held), f.holder())
		}
		release()
	})
}

// TestLockInterrupted: a run that is told to end while it waits, or while its first write has no reply, has nothing.
func TestLockInterrupted(t *testing.T) {
	stop := errors.New("interrupted")
	for name, tt := range map[string]struct {
		holder, want string
	}{
		"waits":      {"other", "interrupted; the run other has the nodes (Lease rdmaperf/rdmaperf-mesh)"},
		"first turn": {"", "interrupted"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				if tt.holder != "" {
					f.have(tt.holder, "then", 30, true)
				}
				f.fault = func(method, _ string) (int, string, bool) {
					if method == http.MethodPost {
						return hangs, "", true // it has its effect
					}
					return 0, "", false
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(3*time.Second, func() { cancel(stop) })
				_, _, err := f.lock(t, "me", time.Hour, &lines{}).Take(ctx)
				if !errors.Is(err, stop) || err.Error() != tt.want || f.holder() != tt.holder {
					t.Errorf("%v; the Lease says %q", err, f.holder())
				}
			})
		})
	}
}

// TestLockNever has many runs at an API server that is late, fails and loses replies: no two of them ever have the
// Lease, and each gets it.
func TestLockNever(t *testing.T) {
	seeds := uint64(5)
	if testutil.Full() {
		seeds = 100
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			var mu sync.Mutex
			r := rand.New(rand.NewPCG(seed, 1))
			chance := func(share float64) bool {
				mu.Lock()
				defer mu.Unlock()
				return r.Float64() < share
			}
			f.delay = func() time.Duration {
				mu.Lock()
				defer mu.Unlock()
				return time.Duration(r.ExpFloat64() * float64(700*time.Millisecond))
			}
			f.fault = func(string, string) (int, string, bool) {
				if !chance(0.3) {
					return 0, "", false
				}
				if chance(0.5) {
					return hangs, "", chance(0.5)
				}
				return 503, "{}", chance(0.5)
			}
			var having []string
			var all sync.WaitGroup
			turns, lost := 0, 0
			for i := range 5 {
				all.Go(func() {
					for turn := range 6 {
						id := fmt.Sprintf("%d-%d", i, turn)
						lock := f.lock(t, id, 100*time.Hour, &lines{})
						held, release, err := lock.Take(t.Context())
						if err != nil { // the API server was out of reach
							time.Sleep(time.Second)
							continue
						}
						mu.Lock()
						having = append(having, id)
						if turns++; len(having) > 1 {
							t.Errorf("seed %d: %q have the Lease", seed, having)
						}
						mu.Unlock()
						select {
						case <-held.Done():
							mu.Lock()
							lost++
							mu.Unlock()
						case <-time.After(90 * time.Second):
						}
						mu.Lock()
						having = having[1:]
						mu.Unlock()
						release()
					}
				})
			}
			all.Wait()
			if turns < 15 {
				t.Errorf("seed %d: %d turns of 30", seed, turns)
			}
			t.Logf("seed %d: %d turns, %d lost, %d requests", seed, turns, lost, f.count())
		})
	}
}
