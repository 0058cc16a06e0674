package ibv

import (
	"fmt"
	"strings"
	"syscall"
)

// ModifyError reports a change of a queue pair's state or attributes that the kernel refused.
// Missing and Superfluous compare the attributes with the InfiniBand specification; Errno is
// the kernel's reply.
type ModifyError struct {
	Type        QPType
	From, To    QPState
	Mask        QPAttrMask // the attributes that were given
	Missing     QPAttrMask // required for the transition and not given
	Superfluous QPAttrMask // given and not allowed in the transition
	Legal       bool       // the transition exists
	Beyond      []error    // values beyond what the device or its port takes, each a *LimitError or *ArgError
	Path        *PathError // a plausible address, named last when no better reason is known; may be nil
	Errno       syscall.Errno
}

func (e *ModifyError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v qp from %v to %v: ", e.Type, e.From, e.To)
	switch {
	case !e.Legal:
		fmt.Fprintf(&b, "no such transition; from %v a qp can move to %s", e.From, nextStates(e.Type, e.From))
	case e.Missing != 0 || e.Superfluous != 0:
		required, optional, _ := RequiredAttrs(e.Type, e.From, e.To)
		var parts []string
		if e.Missing != 0 {
			parts = append(parts, fmt.Sprintf("missing %v (required: %v)", e.Missing, required))
		}
		if e.Superfluous != 0 {
			parts = append(parts, fmt.Sprintf("superfluous %v (allowed: %v)", e.Superfluous, required|optional))
		}
		b.WriteString(strings.Join(parts, ", "))
	case !hasTransitions(e.Type):
		fmt.Fprintf(&b, "refused with the attributes %v", e.Mask)
	case len(e.Beyond) > 0:
		for i, err := range e.Beyond {
			if i > 0 {
				b.WriteString("; ")
			}
			b.WriteString(err.Error())
		}
	case e.To == StateSQD:
		fmt.Fprintf(&b, "the driver may have no such transition, as mlx5's has none, or the qp left %v on its own; to"+
			" drain the send queue without it, poll until the last work request has completed", e.From)
	default:
		fmt.Fprintf(&b, "the set of attributes is valid, so a value was refused, or the qp left %v on its own: call"+
			" Query, and go on from the state that it returns", e.From)
		if hint := valueHints(e.Mask); hint != "" {
			b.WriteString("; check ")
			b.WriteString(hint)
		}
		if e.Path != nil {
			p := e.Path
			fmt.Fprintf(&b, "; last, check the path from %v, sgid index %d of %s port %d, to %v",
				p.Local, p.SGIDIndex, p.Device, p.Port, p.Remote)
		}
	}
	if e.Errno != 0 {
		b.WriteString(": ")
		b.WriteString(e.Errno.Error())
	}
	return b.String()
}

// Unwrap returns Errno and Beyond. Path is left out: it need not be the reason.
func (e *ModifyError) Unwrap() []error {
	if e.Errno == 0 {
		return e.Beyond
	}
	return append([]error{e.Errno}, e.Beyond...)
}

// valueHints lists the given attributes whose values devices refuse most often.
func valueHints(mask QPAttrMask) string {
	var hints []string
	for _, h := range []struct {
		bit  QPAttrMask
		text string
	}{
		{MaskPort, "the port number"},
		{MaskPKeyIndex, "the pkey index"},
		{MaskPathMTU, "the path MTU (at most the port's active MTU)"},
		{MaskMaxQPRdAtomic, "max_rd_atomic (at most the device's max_qp_init_rd_atom)"},
		{MaskMaxDestRdAtomic, "max_dest_rd_atomic (at most the device's max_qp_rd_atom)"},
		{MaskTimeout, "the timeout (at most 31)"},
		{MaskRetryCnt, "the retry count (at most 7)"},
		{MaskRNRRetry, "the RNR retry count (at most 7)"},
		{MaskMinRNRTimer, "the RNR timer (at most 31)"},
		{MaskAccessFlags, "the access flags"},
		{MaskRateLimit, "the rate limit"},
		{MaskAV, "the address (sgid index, GID, port)"},
	} {
		if mask&h.bit != 0 {
			hints = append(hints, h.text)
		}
	}
	return strings.Join(hints, ", ")
}
