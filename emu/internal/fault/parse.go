//go:build linux

package fault

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/opcode"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// SpecError reports what is wrong with the text of a fault.
type SpecError struct {
	Spec string
	Part string // the word that is wrong
	Err  error
}

// Error names the spec, the word and what would be right.
func (e *SpecError) Error() string {
	return fmt.Sprintf("fault %q: %s: %v", clip(e.Spec), clip(e.Part), e.Err)
}

// Unwrap returns what would be right.
func (e *SpecError) Unwrap() error { return e.Err }

func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

const maxDelay = time.Minute

// ParseSpec reads KIND[:key=value,…].
func ParseSpec(text string) (*Spec, error) {
	kind, rest, _ := strings.Cut(text, ":")
	s := &Spec{Text: text, Opcode: -1, Port: 1}
	fail := func(part, format string, a ...any) (*Spec, error) {
		return nil, &SpecError{text, part, fmt.Errorf(format, a...)}
	}
	var known []string
	for k := RNR; k < kinds; k++ {
		if Kinds[k].Name == strings.ToLower(kind) {
			s.Kind = k
		}
		known = append(known, Kinds[k].Name)
	}
	if s.Kind == 0 {
		s.Kind, s.Errno = Errno, errno(strings.TrimPrefix(strings.ToLower(kind), "errno="))
		if s.Errno == 0 {
			return fail(kind, "unknown kind; want one of %s, or an errno like enomem", strings.Join(known, ", "))
		}
	}
	s.At = Kinds[s.Kind].At
	seen := map[string]bool{}
	for part := range strings.SplitSeq(rest, ",") {
		if part == "" && rest == "" {
			break
		}
		key, val, ok := strings.Cut(part, "=")
		if !ok || val == "" {
			return fail(part, "want key=value")
		}
		if seen[key] {
			return fail(part, "%s is given twice", key)
		}
		seen[key] = true
		if err := s.set(key, val); err != nil {
			return fail(part, "%w", err)
		}
	}
	switch {
	case seen["prob"] && seen["every"]:
		return fail("every", "prob and every exclude each other")
	case seen["seed"] && !seen["prob"]:
		return fail("seed", "needs prob=")
	case s.Kind == CQEDelayed && s.Delay == 0:
		return fail(kind, "needs us=MICROSECONDS")
	case s.Kind == GIDChange && !seen["index"]:
		return fail(kind, "needs index=N")
	}
	if !seen["count"] && !seen["every"] && !seen["prob"] {
		s.Count = 1
	}
	if seen["prob"] {
		s.rng = rand.New(rand.NewPCG(s.Seed, 0x9e3779b97f4a7c15))
	}
	return s, nil
}

var errKey = errors.New("unknown key; want qp, cq, opcode, pid, device, cmd, after, every, count, prob, seed")

// set adds one key. A key that a kind could never match is an error: the fault would silently never happen.
func (s *Spec) set(key, val string) (err error) {
	switch key {
	case "after":
		return number(val, 0, 1<<62, &s.After)
	case "every":
		return number(val, 1, 1<<62, &s.Every)
	case "count":
		return number(val, 0, 1<<62, &s.Count)
	case "seed":
		return number(val, 0, 1<<64-1, &s.Seed)
	case "prob":
		if s.Prob, err = strconv.ParseFloat(val, 64); err != nil || !(s.Prob > 0 && s.Prob <= 1) {
			return errors.New("want a number above 0, up to 1")
		}
		return nil
	case "pid":
		return number(val, 1, 1<<31-1, &s.PID)
	case "device":
		s.Device = val
		return nil
	case "cmd":
		if Kinds[s.Kind].At != AtCommand && !s.Kind.Machine() {
			return fmt.Errorf("no key of %s: it counts %ss", s.Kind, s.At)
		}
		s.At = AtCommand
		s.Cmd = strings.ToLower(val)
		return command(s.Cmd)
	}
	at, machine := Kinds[s.Kind].At, s.Kind.Machine()
	switch {
	case key == "qp" && at != AtCommand && !machine:
		return number(val, 1, 1<<24-1, &s.QP)
	case key == "cq" && at == AtCQE:
		return number(val, 1, 1<<24-1, &s.CQ)
	case key == "opcode" && at != AtCommand && at != AtDoorbell && !machine:
		if op, ok := opcode.Parse(strings.ToUpper(val)); ok {
			s.Opcode = int(op)
			return nil
		}
		return number(val, 0, 255, &s.Opcode)
	case key == "us" && s.Kind == CQEDelayed:
		var us int64
		err = number(val, 1, int64(maxDelay/time.Microsecond), &us)
		s.Delay = time.Duration(us) * time.Microsecond
		return err
	case key == "port" && machine && s.Kind != DeviceRemoval:
		return number(val, 1, 255, &s.Port)
	case key == "index" && s.Kind == GIDChange:
		return number(val, 0, 255, &s.Index)
	case key == "gid" && s.Kind == GIDChange:
		s.GID, err = config.ParseAddr(val)
		return err
	case slices.Contains([]string{"qp", "cq", "opcode", "us", "port", "index", "gid"}, key):
		return fmt.Errorf("no key of %s", s.Kind)
	}
	return errKey
}

func number[T ~int | ~int64 | ~uint32 | ~uint64](val string, lo, hi T, to *T) error {
	n, err := strconv.ParseUint(val, 0, 64)
	if err != nil || n < uint64(lo) || n > uint64(hi) {
		return fmt.Errorf("want a number from %d to %d", lo, hi)
	}
	*to = T(n)
	return nil
}

// errno finds the number of a name in lower case, or of decimal digits; 0 = none.
func errno(s string) unix.Errno {
	n, err := strconv.ParseUint(s, 10, 8)
	if err == nil && unix.ErrnoName(unix.Errno(n)) != "" {
		return unix.Errno(n)
	}
	for e := unix.Errno(1); e < 256; e++ {
		if s != "" && strings.ToLower(unix.ErrnoName(e)) == s {
			return e
		}
	}
	return 0
}

// command checks a command's name, in lower case. Those of the connection manager begin with cm_.
func command(name string) error {
	known := append([]string(nil), cmCommands...)
	for i := range uapi.Methods {
		known = append(known, uapi.Methods[i].Name)
	}
	for i := range uapi.Cmds {
		known = append(known, uapi.Cmds[i].Name)
	}
	if slices.Contains(known, name) {
		return nil
	}
	slices.Sort(known)
	return fmt.Errorf("unknown command; want one of %s", strings.Join(slices.Compact(known), ", "))
}

var cmCommands = strings.Fields(`
	cm_create_id cm_destroy_id cm_bind_ip cm_resolve_ip cm_resolve_route cm_query_route cm_connect cm_listen cm_accept
	cm_reject cm_disconnect cm_init_qp_attr cm_get_event cm_set_option cm_notify cm_join_ip_mcast cm_leave_mcast
	cm_migrate_id cm_query cm_bind cm_resolve_addr cm_join_mcast cm_write_cm_event`)
