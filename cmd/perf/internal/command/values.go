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

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/hostfacts"
)

// value is a flag's value that has a parser.
type value[T any] struct {
	at   *T
	kind string // in --help, where the text has no word for it
	read func(string) (T, error)
	show func(T) string // nil: as fmt does
}

func (v value[T]) String() string {
	switch {
	case v.at == nil:
		return "0" // pflag asks a zero value
	case v.show != nil:
		return v.show(*v.at)
	}
	return fmt.Sprint(*v.at)
}

func (v value[T]) Type() string { return v.kind }

func (v value[T]) Set(t string) error { return into(v.at, v.read)(t) }

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

// size is a number of bytes with an optional K, M or G (of 1024).
func size(at *uint64) pflag.Value { return value[uint64]{at: at, kind: "bytes", read: readSize} }

func readSize(t string) (uint64, error) {
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
		return 0, fmt.Errorf("%q is not a number of bytes, such as 64, 4K or 1M", t)
	}
	if v == 0 {
		return 0, errors.New("0 bytes; the smallest message has 1 byte")
	}
	return v << shift, nil
}

// length is a size that fits an int.
func length(at *int) pflag.Value {
	return value[int]{at: at, kind: "bytes", read: func(t string) (int, error) {
		s, err := readSize(t)
		if err == nil && s > 1<<31-1 {
			err = fmt.Errorf("%q: too large for a message", t)
		}
		return int(s), err
	}}
}

// whole is an integer, in the way that Go writes one.
func whole[T int | int64 | uint8 | uint16 | uint64](at *T) pflag.Value {
	return value[T]{at: at, kind: "int", read: func(t string) (T, error) {
		v, err := strconv.ParseInt(t, 0, 64)
		n, most := T(v), ^T(0)
		switch unsigned := most > 0; {
		case err == nil && int64(n) == v && (v >= 0 || !unsigned):
			return n, nil
		case unsigned && uint64(most) <= math.MaxUint16:
			return 0, fmt.Errorf("%.100q is not a number from 0 to %d", t, most)
		case unsigned:
			return 0, fmt.Errorf("%.100q is not a number from 0 on", t)
		}
		return 0, fmt.Errorf("%.100q is not a whole number", t)
	}}
}

// number is one with a fraction.
func number(at *float64) pflag.Value {
	return value[float64]{at: at, kind: "float", read: func(t string) (float64, error) {
		v, err := strconv.ParseFloat(t, 64)
		if err != nil {
			return 0, fmt.Errorf("%.100q is not a number", t)
		}
		return v, nil
	}}
}

// limit is a number that a figure is compared with; 0: none.
func limit(at *float64) pflag.Value { return value[float64]{at: at, kind: "float", read: readLimit} }

func readLimit(t string) (float64, error) {
	v, err := strconv.ParseFloat(t, 64)
	if err != nil || !(v >= 0 && v < 1e12) {
		return 0, fmt.Errorf("%.100q is not a limit: give a number above 0", t)
	}
	return v, nil
}

// sized is a limit of all message sizes, or of one as 180@8M.
type sized struct {
	limit float64
	of    uint64
}

func sizedLimit(at *sized) pflag.Value {
	return value[sized]{at: at, kind: "float", read: func(t string) (s sized, err error) {
		text, of, one := strings.Cut(t, "@")
		if one {
			if s.of, err = readSize(of); err != nil {
				return s, err
			}
		}
		s.limit, err = readLimit(text)
		return s, err
	}, show: func(s sized) string { return fmt.Sprint(s.limit) }}
}

// percent is a share, as 3% or 0.03.
func percent(at *float64) pflag.Value {
	return value[float64]{at: at, kind: "percent", read: func(t string) (float64, error) {
		num, isPercent := strings.CutSuffix(t, "%")
		v, err := strconv.ParseFloat(num, 64)
		if isPercent {
			v /= 100
		}
		if err != nil || !(v >= 0 && v < 1) {
			return 0, fmt.Errorf("%q is not a share below 100%%, such as 3%% or 0.03", t)
		}
		return v, nil
	}, show: showPercent}
}

func showPercent(v float64) string { return strconv.FormatFloat(100*v, 'g', 6, 64) + "%" }

// seconds is a duration: a number of seconds, or with a unit as 1500ms.
func seconds(at *time.Duration) pflag.Value { return duration(at, time.Second, "seconds", "1500ms") }

// duration is a number of units, named by what, or a duration with its own unit, such as example.
func duration(at *time.Duration, unit time.Duration, what, example string) pflag.Value {
	const most = 1e17 // ns: three years
	return value[time.Duration]{at: at, kind: what, read: func(t string) (time.Duration, error) {
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
	}}
}

// cpus is a list of CPUs, with commas and ranges between them.
func cpus(at *[]int) pflag.Value {
	return value[[]int]{at: at, kind: "list", read: hostfacts.ParseCPUs}
}

// labels are flow labels, with commas between them.
func labels(at *[]uint32) pflag.Value {
	return value[[]uint32]{at: at, kind: "list", read: func(t string) (list []uint32, _ error) {
		for s := range strings.SplitSeq(t, ",") {
			v, err := strconv.ParseUint(s, 0, 20)
			if err != nil {
				return nil, fmt.Errorf("%q is not a flow label, from 0 to %d", s, 1<<20-1)
			}
			list = append(list, uint32(v))
		}
		return list, nil
	}}
}

// mac is an Ethernet address.
func mac(at *[6]byte) pflag.Value {
	return value[[6]byte]{at: at, kind: "address", read: func(t string) (m [6]byte, _ error) {
		a, err := net.ParseMAC(t)
		if err != nil || len(a) != len(m) {
			return m, errors.New("not an Ethernet address, such as e4:1d:2d:00:00:01")
		}
		return [6]byte(a), nil
	}}
}

// ip is an IP address.
func ip(at *netip.Addr) pflag.Value {
	return value[netip.Addr]{at: at, kind: "address", read: netip.ParseAddr}
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
