package rdmacm

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pureverbs/pureverbs/ibv"
)

// side is a side of a connection. Options of Request.Accept are of the listening one.
type side string

const (
	dialing   side = "Dial"
	listening side = "Listen"
)

// optionUse is a field of Options, with its value.
type optionUse struct {
	field string
	set   bool
	got   any
	of    []side // that it applies to
	conns bool   // it applies to connections only, not to datagrams
}

// uses returns the fields of Options.
func (o *Options) uses() []optionUse {
	both, dial, listen := []side{dialing, listening}, []side{dialing}, []side{listening}
	const function, object = "a function", "an object"
	return []optionUse{
		{"PortSpace", o.PortSpace != 0, o.PortSpace, both, false},
		{"PrivateData", len(o.PrivateData) > 0, fmt.Sprint(len(o.PrivateData), " bytes"), both, false},
		{"PD", o.PD != nil, object, both, false},
		{"SendCQ", o.SendCQ != nil, object, both, false},
		{"RecvCQ", o.RecvCQ != nil, object, both, false},
		{"CQ", o.CQ != nil, "CQOptions", both, false},
		{"QP", o.QP != ibv.QPOptions{}, "QPOptions", both, false},
		{"Use", o.Use != nil, function, both, false},
		{"Prepare", o.Prepare != nil, function, both, false},
		{"Confirm", o.Confirm != nil, function, dial, true},
		{"Failed", o.Failed != nil, function, both, false},
		{"ResponderResources", o.ResponderResources != 0, o.ResponderResources, both, true},
		{"InitiatorDepth", o.InitiatorDepth != 0, o.InitiatorDepth, both, true},
		{"RetryCount", o.RetryCount != 0, o.RetryCount, dial, true},
		{"RNRRetryCount", o.RNRRetryCount != 0, o.RNRRetryCount, both, true},
		{"OwnRNRRetryCount", o.OwnRNRRetryCount != 0, o.OwnRNRRetryCount, both, true},
		{"Access", o.Access != 0, o.Access, both, true},
		{"TOS", o.TOS != 0, o.TOS, both, false},
		{"AckTimeout", o.AckTimeout != 0, o.AckTimeout, both, true},
		{"ReuseAddr", o.ReuseAddr, o.ReuseAddr, both, false},
		{"AFOnly", o.AFOnly, o.AFOnly, listen, false},
		{"LocalAddr", o.LocalAddr.IsValid(), o.LocalAddr, dial, false},
		{"Timeout", o.Timeout != 0, o.Timeout, both, false},
		{"Backlog", o.Backlog != 0, o.Backlog, listen, false},
	}
}

// checkUses refuses the fields that are set and do not apply to a side of a port space.
func (o *Options) checkUses(s side, ps PortSpace) error {
	var errs []error
	for _, u := range o.uses() {
		want := ""
		switch {
		case !u.set:
		case !slices.Contains(u.of, s):
			want = fmt.Sprintf("unset in the Options of %s, because it applies to %s only", s, u.of[0])
		case u.conns && ps.datagram():
			want = fmt.Sprintf("unset with PortSpace %v, because it applies to connections only", ps)
		}
		if want != "" {
			got := fmt.Sprint(u.got)
			errs = append(errs, &ibv.ArgError{Arg: u.field, Got: got, Want: want})
		}
	}
	return errors.Join(errs...)
}
