package rdma

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// call is a function that takes Options.
type call string

const (
	callDial         call = "Dial"
	callDialStream   call = "DialStream"
	callDialPacket   call = "DialPacket"
	callListen       call = "Listen"
	callListenStream call = "ListenStream"
	callListenPacket call = "ListenPacket"
	callPipe         call = "Pipe"
)

// callOf returns the call that makes, or listens for, connections of a kind.
func callOf(kind wire.ConnKind, messages, stream call) call {
	if kind == wire.Stream {
		return stream
	}
	return messages
}

// use is a field of Options, with its value.
type use struct {
	field string
	set   bool
	got   any
	of    []call // the calls that it applies to
}

// uses returns the fields of Options, all of them but those of the tests.
func (o *Options) uses() []use {
	dial := []call{callDial, callDialStream}
	listen := []call{callListen, callListenStream}
	stream := []call{callDialStream, callListenStream}
	conns := slices.Concat(dial, listen)
	packets := []call{callDialPacket, callListenPacket}
	pipe := []call{callPipe}
	leases, engine := "", ""
	if o.Leases != nil {
		leases = "LeaseOptions"
	}
	if o.Engine != nil {
		engine = "one of " + o.Engine.e.Name()
	}
	const function = "a function"
	return []use{
		{"Engine", o.Engine != nil, engine, slices.Concat(conns, packets)},
		{"MaxMessage", o.MaxMessage != 0, o.MaxMessage, []call{callDial, callListen, callPipe}},
		{"KeepAlive", o.KeepAlive != 0, o.KeepAlive, slices.Concat(conns, pipe)},
		{"Leases", o.Leases != nil, leases, []call{callDial, callListen, callPipe}},
		{"Linger", o.Linger != 0, o.Linger, slices.Concat(conns, pipe)},
		{"PrivateData", len(o.PrivateData) > 0, fmt.Sprint(len(o.PrivateData), " bytes"),
			[]call{callDial, callDialStream, callListen, callPipe}},
		{"Fallback", o.Fallback, o.Fallback, stream},
		{"Authorize", o.Authorize != nil, function, listen},
		{"LocalAddr", o.LocalAddr.IsValid(), o.LocalAddr, slices.Concat(dial, packets[:1])},
		{"Timeout", o.Timeout != 0, o.Timeout, slices.Concat(conns, packets)},
		{"Backlog", o.Backlog != 0, o.Backlog, listen},
		{"ReuseAddr", o.ReuseAddr, o.ReuseAddr, slices.Concat(conns, packets)},
		{"AFOnly", o.AFOnly, o.AFOnly, listen},
		{"TOS", o.TOS != 0, o.TOS, slices.Concat(conns, packets)},
		{"AckTimeout", o.AckTimeout != 0, o.AckTimeout, conns},
		{"RetryCount", o.RetryCount != 0, o.RetryCount, dial},
		{"Logger", o.Logger != nil, "a Logger", slices.Concat(conns, packets, pipe)},
	}
}

// checkUses refuses the fields that are set and do not apply to a call.
func (o *Options) checkUses(c call) error {
	var errs []error
	for _, u := range o.uses() {
		if u.set && !slices.Contains(u.of, c) {
			errs = append(errs, &ibv.ArgError{Arg: u.field, Got: fmt.Sprint(u.got),
				Want: fmt.Sprintf("unset in the Options of %s, because it applies to %s only", c, listed(u.of))})
		}
	}
	return errors.Join(errs...)
}

// listed returns calls as in "Dial, DialStream and Listen".
func listed(list []call) string {
	names := make([]string, len(list))
	for i, c := range list {
		names[i] = string(c)
	}
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
