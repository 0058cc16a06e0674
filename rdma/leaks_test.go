package rdma

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/leak"
)

// TestReleasedTwice: with PUREVERBS_LEAKS=1, the panic of a second Release names the place of the first one, and what
// was not released is recorded with the place that got it.
func TestReleasedTwice(t *testing.T) {
	defer leak.SetHot(leak.SetHot(true))
	l := sender(64)
	m := newMessage(l).handle()
	p := fakePool()
	b := p.take()
	for _, want := range []string{"message of ", "buffer of 64 bytes"} {
		if open := strings.Join(leak.Open(), "\n"); !strings.Contains(open, want) || !strings.Contains(open, t.Name()) {
			t.Errorf("%q is not recorded: %s", want, open)
		}
	}
	firstRelease := func() {
		m.Release()
		b.Release()
	}
	firstRelease()
	for what, f := range map[string]func(){
		"Message.Release": m.Release,
		"Message.Bytes":   func() { m.Bytes() },
		"Buffer.Release":  b.Release,
		"Buffer.Bytes":    func() { b.Bytes() },
	} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, t.Name()+".func1") {
					t.Errorf("%s panics with %q", what, text)
				}
			}()
			f()
		}()
	}
	p.take().Release()
	open := strings.Join(leak.Open(), "\n")
	if strings.Contains(open, "message of") || strings.Contains(open, "buffer of") {
		t.Errorf("still recorded: %s", open)
	}
}

// TestConnIsTheSame: a link has one Conn while the program has it, and does not keep it.
func TestConnIsTheSame(t *testing.T) {
	l := &link{}
	c := l.connOf()
	if l.connOf() != c {
		t.Error("another Conn")
	}
	runtime.KeepAlive(c)
	for range 100 {
		if runtime.GC(); l.view.Value() == nil {
			return
		}
	}
	t.Error("the link keeps its Conn")
}
