package loop

import (
	"fmt"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/tsc"
)

// cacheLines notes which thread has each cache line, of what v leads to.
type cacheLines struct {
	t    *testing.T
	line uintptr
	has  map[uintptr]cacheLine
}

type cacheLine struct {
	thread int
	what   string
}

func (c *cacheLines) span(thread int, what string, from, n uintptr) {
	for a := from / c.line; n > 0 && a <= (from+n-1)/c.line; a++ {
		if had, ok := c.has[a]; ok && had.thread != thread {
			c.t.Errorf("thread %d's %s and thread %d's %s share a cache line", had.thread, had.what, thread, what)
		}
		c.has[a] = cacheLine{thread, what}
	}
}

// walk leaves out what all threads only read, and what is locked.
func (c *cacheLines) walk(thread int, what string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		switch v.Type() {
		case reflect.TypeFor[*tsc.Clock](), reflect.TypeFor[*measure.Window]():
			return
		}
		if v.IsNil() {
			return
		}
		from, n := v.Pointer(), v.Type().Elem().Size()
		if e := v.Type().Elem(); e.Field(0).Name == "_" {
			pad := e.Field(0).Type.Size()
			from, n = from+pad, n-2*pad
		}
		c.span(thread, what, from, n)
		c.walk(thread, what, v.Elem())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Pointer {
			return // of links, which are walked by themselves
		}
		c.span(thread, what, v.Pointer(), uintptr(v.Cap())*v.Type().Elem().Size())
		for i := range v.Len() {
			c.walk(thread, fmt.Sprintf("%s[%d]", what, i), v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Name != "_" {
				c.walk(thread, what+"."+f.Name, v.Field(i))
			}
		}
	}
}

// What one thread writes while it runs is in no cache line of another's.
func TestThreadsShareNoCacheLine(t *testing.T) {
	clk := tsc.New()
	window := &measure.Window{}
	c := &cacheLines{t: t, line: 64, has: map[uintptr]cacheLine{}}
	var all []any // alive, so that no memory is used twice
	for thread := range 8 {
		b := &Bandwidth{Monitor: NewMonitor(clk, time.Second, false), Stamps: measure.NewStamps(5, 5, 1),
			Sample: measure.NewSampler(clk, time.Second, 0), Pace: measure.NewPacer(clk, 1000, 1)}
		window.Add(b.Sample)
		for range 3 {
			b.Links = append(b.Links, NewLink(1, 3, 0))
		}
		all = append(all, b)
		c.walk(thread, "loop", reflect.ValueOf(b).Elem().FieldByName("Monitor"))
		for _, name := range []string{"Stamps", "Sample", "Pace"} {
			c.walk(thread, name, reflect.ValueOf(b).Elem().FieldByName(name))
		}
		for _, l := range b.Links {
			c.walk(thread, "link", reflect.ValueOf(l))
		}
		c.walk(thread, "bandwidth", reflect.ValueOf(b))
		lat := &Latency{Monitor: NewMonitor(clk, time.Second, true), Link: NewLink(1, 1, 0)}
		all = append(all, lat)
		c.walk(thread, "latency", reflect.ValueOf(lat))
	}
	if len(c.has) < 8*30 {
		t.Errorf("only %d cache lines were looked at", len(c.has))
	}
	runtime.KeepAlive(all)
}
