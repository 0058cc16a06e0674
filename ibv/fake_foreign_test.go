package ibv

import (
	"errors"
	"testing"
)

// An object of another Device is refused by name, and the library is not asked.
func TestFake_OfAnotherDevice(t *testing.T) {
	s := fakeRaw(t, RawOptions{})
	far := &side{dev: closing(t, must(Open("fake1"))(t))}
	far.more(t, nil)
	farSRQ := closing(t, must(far.pd.CreateSRQ(nil))(t))
	farChannel := closing(t, must(far.dev.CreateCompChannel())(t))
	farRaw := closing(t, must(far.pd.CreateQP(far.cq, far.cq, &QPOptions{Type: RawPacket}))(t))
	farFlow := closing(t, must(farRaw.CreateFlow(&FlowAttr{Port: 1}))(t))
	counters := closing(t, must(s.dev.CreateCounters())(t))
	for _, c := range []struct {
		arg  string
		call func() error
	}{
		{"send CQ", func() error { return closed(s.pd.CreateQP(far.cq, s.cq, nil)) }},
		{"recv CQ", func() error { return closed(s.pd.CreateQP(s.cq, far.cq, nil)) }},
		{"SRQ", func() error { return closed(s.pd.CreateQP(s.cq, s.cq, &QPOptions{SRQ: farSRQ})) }},
		{"cq", func() error { return closed(s.pd.CreateWQ(far.cq, nil)) }},
		{"CQ", func() error { return closed(s.pd.CreateSRQ(&SRQOptions{Type: SRQXRC, CQ: far.cq})) }},
		{"Channel", func() error { return closed(s.dev.CreateCQ(4, &CQOptions{Channel: farChannel})) }},
		{"PD", func() error { return s.mr.Rereg(&ReregOptions{PD: far.pd}) }},
		{"flow", func() error { return counters.AttachFlow(CountBytes, 0, farFlow) }},
	} {
		var ae *ArgError
		if err := c.call(); !errors.As(err, &ae) || ae.Arg != c.arg {
			t.Errorf("%v, want an ArgError of %s", err, c.arg)
		}
	}
	var ae *ArgError
	if err := s.mr.Rereg(&ReregOptions{Buf: []byte{}}); !errors.As(err, &ae) || ae.Arg != "Buf" {
		t.Errorf("%v, want an ArgError of Buf", err)
	}
	ok(t, s.mr.Rereg(&ReregOptions{PD: s.pd})) // it is as it was
}
