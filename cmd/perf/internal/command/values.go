package command

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/pureverbs/pureverbs/hostfacts"
)

// size is a number of bytes with an optional K, M or G (of 1024).
type size uint64

func (s *size) String() string { return strconv.FormatUint(uint64(*s), 10) }
func (s *size) Type() string   { return "bytes" }

func (s *size) Set(t string) error {
	num, shift := t, 0
	if n := len(t); n > 0 {
		switch t[n-1] {
		case 'k', 'K':
			shift = 10
		case 'm', 'M':
			shift = 20
		case 'g', 'G':
			shift = 30
		}
		if shift > 0 {
			num = t[:n-1]
		}
	}
	v, err := strconv.ParseUint(num, 10, 64)
	if err != nil || v > math.MaxUint64>>shift {
		return fmt.Errorf("%q is not a number of bytes, such as 64, 4K or 1M", t)
	}
	if v == 0 {
		return errors.New("0 bytes; the smallest message has 1 byte")
	}
	*s = size(v << shift)
	return nil
}

// whole is an integer, in the way that Go writes one.
type whole[T int | int64 | uint8 | uint16 | uint64] struct{ at *T }

func (w whole[T]) String() string {
	if w.at == nil {
		return "0" // pflag asks a zero value
	}
	return fmt.Sprint(*w.at)
}
func (w whole[T]) Type() string { return "int" }

func (w whole[T]) Set(t string) error {
	v, err := strconv.ParseInt(t, 0, 64)
	n, most := T(v), ^T(0)
	switch unsigned := most > 0; {
	case err == nil && int64(n) == v && (v >= 0 || !unsigned):
		*w.at = n
		return nil
	case unsigned && uint64(most) <= math.MaxUint16:
		return fmt.Errorf("%.100q is not a number from 0 to %d", t, most)
	case unsigned:
		return fmt.Errorf("%.100q is not a number from 0 on", t)
	}
	return fmt.Errorf("%.100q is not a whole number", t)
}

// number is one with a fraction.
type number float64

func (n *number) String() string { return strconv.FormatFloat(float64(*n), 'g', -1, 64) }
func (n *number) Type() string   { return "float" }

func (n *number) Set(t string) error {
	v, err := strconv.ParseFloat(t, 64)
	if err != nil {
		return fmt.Errorf("%.100q is not a number", t)
	}
	*n = number(v)
	return nil
}

// limit is a number that a figure is compared with; 0: none.
type limit float64

func (l *limit) String() string { return (*number)(l).String() }
func (l *limit) Type() string   { return "float" }

func (l *limit) Set(t string) error {
	v, err := strconv.ParseFloat(t, 64)
	if err != nil || !(v >= 0 && v < 1e12) {
		return fmt.Errorf("%.100q is not a limit: give a number above 0", t)
	}
	*l = limit(v)
	return nil
}

// sizedLimit is a limit of all message sizes, or of one as 180@8M.
type sizedLimit struct {
	limit
	of size
}

func (l *sizedLimit) Set(t string) error {
	value, of, one := strings.Cut(t, "@")
	if one {
		if err := l.of.Set(of); err != nil {
			return err
		}
	} else {
		l.of = 0
	}
	return l.limit.Set(value)
}

// into returns what stores a value that has a parser.
func into[T any](at *T, parse func(string) (T, error)) func(string) error {
	return func(t string) (err error) {
		v, err := parse(t)
		if err == nil {
			*at = v
		}
		return err
	}
}

// seconds is a duration: a number of seconds, or with a unit as 1500ms.
type seconds time.Duration

func (s *seconds) String() string { return time.Duration(*s).String() }
func (s *seconds) Type() string   { return "seconds" }

func (s *seconds) Set(t string) error {
	d, err := inUnits(t, time.Second, "seconds", "1500ms")
	*s = seconds(d)
	return err
}

// inUnits parses a number of units, named by what, or a duration with its own unit, such as example.
func inUnits(t string, unit time.Duration, what, example string) (time.Duration, error) {
	const most = 1e17 // ns: three years
	if v, err := strconv.ParseFloat(t, 64); err == nil {
		if math.IsNaN(v) || math.Abs(v) > most/float64(unit) {
			return 0, fmt.Errorf("%q %s: too long", t, what)
		}
		return time.Duration(v * float64(unit)), nil
	}
	d, err := time.ParseDuration(t)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number of %s, nor a duration such as %s", t, what, example)
	}
	return d, nil
}

// microseconds is a duration: a number of microseconds, or with a unit as 5ms.
type microseconds time.Duration

func (m *microseconds) String() string { return time.Duration(*m).String() }
func (m *microseconds) Type() string   { return "microseconds" }

func (m *microseconds) Set(t string) error {
	d, err := inUnits(t, time.Microsecond, "microseconds", "5ms")
	*m = microseconds(d)
	return err
}

// cpus is a list of CPUs, with commas and ranges between them.
type cpus []int

func (c *cpus) String() string { return fmt.Sprint([]int(*c)) }
func (c *cpus) Type() string   { return "list" }

func (c *cpus) Set(t string) error {
	list, err := hostfacts.ParseCPUs(t)
	if err != nil {
		return err
	}
	*c = list
	return nil
}

// labels are flow labels, with commas between them.
type labels []uint32

func (l *labels) String() string { return fmt.Sprint([]uint32(*l)) }
func (l *labels) Type() string   { return "list" }

func (l *labels) Set(t string) error {
	*l = nil
	for s := range strings.SplitSeq(t, ",") {
		v, err := strconv.ParseUint(s, 0, 20)
		if err != nil {
			return fmt.Errorf("%q is not a flow label, from 0 to %d", s, 1<<20-1)
		}
		*l = append(*l, uint32(v))
	}
	return nil
}

// mac is an Ethernet address.
type mac [6]byte

func (m *mac) String() string { return net.HardwareAddr(m[:]).String() }
func (m *mac) Type() string   { return "address" }

func (m *mac) Set(t string) error {
	a, err := net.ParseMAC(t)
	if err != nil || len(a) != len(m) {
		return errors.New("not an Ethernet address, such as e4:1d:2d:00:00:01")
	}
	copy(m[:], a)
	return nil
}

// ip is an IP address.
type ip netip.Addr

func (a *ip) String() string { return (*netip.Addr)(a).String() }
func (a *ip) Type() string   { return "address" }

func (a *ip) Set(t string) error {
	v, err := netip.ParseAddr(t)
	*a = ip(v)
	return err
}

// serverName reads the names of servers, with commas between: host names and addresses, which may have brackets.
func serverName(text string) (string, error) {
	names := strings.Split(text, ",")
	for i, n := range names {
		if strings.HasPrefix(n, "[") && strings.HasSuffix(n, "]") {
			names[i] = n[1 : len(n)-1]
		}
		switch {
		case len(names) == 1 && strings.TrimSpace(n) == "":
			return "", errors.New("the name of the server is empty")
		case strings.Count(n, ":") == 1 || strings.Contains(n, "]:"):
			return "", fmt.Errorf("server %.100q: give the TCP port with -p", n)
		}
	}
	return strings.Join(names, ","), nil
}
