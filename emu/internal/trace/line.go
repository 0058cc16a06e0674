//go:build linux

package trace

import (
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/pureverbs/pureverbs/emu/internal/control"
)

// line appends one line to b: `key=value …`, or a JSON object with the same keys. Numbers that people read in
// hexadecimal are strings in JSON, "0x45".
type line struct {
	b     []byte
	json  bool
	in    int // nested objects and lists
	first bool
}

func (l *line) head(at time.Duration, pid int, device, kind string) {
	us := at.Microseconds()
	if l.json {
		l.b = append(l.b, '{')
		l.first = true
		l.num("us", us)
		l.num("pid", int64(pid))
		l.str("device", device)
		l.str("kind", kind)
		return
	}
	l.b = strconv.AppendInt(l.b, us/1e6, 10)
	l.b = append(l.b, '.')
	for d := int64(1e5); d > 0; d /= 10 {
		l.b = append(l.b, byte('0'+us/d%10))
	}
	l.b = strconv.AppendInt(append(l.b, ' '), int64(pid), 10)
	if device == "" {
		device = "-"
	}
	l.b = append(append(l.b, ' '), device...)
	l.b = append(append(l.b, ' '), kind...)
}

func (l *line) finish() {
	if l.json {
		l.b = append(l.b, '}')
	}
	l.b = append(l.b, '\n')
}

func (l *line) key(k string) {
	switch {
	case l.json:
		if !l.first {
			l.b = append(l.b, ',')
		}
		if k != "" {
			l.b = append(append(append(l.b, '"'), k...), '"', ':')
		}
	default:
		if !l.first || l.in == 0 {
			l.b = append(l.b, ' ')
		}
		if k != "" {
			l.b = append(append(l.b, k...), '=')
		}
	}
	l.first = false
}

func (l *line) num(k string, v int64) {
	l.key(k)
	l.b = strconv.AppendInt(l.b, v, 10)
}

func (l *line) hex(k string, v uint64) {
	l.key(k)
	l.mark()
	l.b = strconv.AppendUint(append(l.b, '0', 'x'), v, 16)
	l.mark()
}

// mark is a quotation mark, in JSON.
func (l *line) mark() {
	if l.json {
		l.b = append(l.b, '"')
	}
}

// escaped is a string as JSON has it in quotation marks.
var escaped = strings.NewReplacer(`"`, `\"`, `\`, `\\`)

func (l *line) str(k, v string) {
	l.key(k)
	shown := control.Visible(escaped.Replace(v))
	if l.json || shown != v || strings.Contains(v, " ") {
		shown = `"` + shown + `"`
	}
	l.b = append(l.b, shown...)
}

func (l *line) flag(k string, v bool) {
	switch {
	case !v:
	case l.json:
		l.key(k)
		l.b = append(l.b, "true"...)
	default:
		l.key("")
		l.b = append(l.b, k...)
	}
}

func (l *line) bytes(k string, v []byte) {
	l.key(k)
	l.mark()
	l.b = hex.AppendEncode(l.b, v)
	l.mark()
}

// open and close put what is between them into an object or a list.
func (l *line) open(k string, bracket byte) {
	l.key(k)
	l.b = append(l.b, bracket)
	l.in++
	l.first = true
}

func (l *line) close(bracket byte) {
	l.b = append(l.b, bracket)
	l.in--
	l.first = false
}
