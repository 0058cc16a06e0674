//go:build linux

package trace

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/cm"
	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/engine"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/opcode"
	"github.com/pureverbs/pureverbs/emu/internal/verbs"
)

func device(c *hca.Context) string {
	if c == nil {
		return ""
	}
	return c.Device.Config.Name
}

// Engine prints what the engine did.
func (t *Trace) Engine(r *engine.Record) {
	var c *hca.Context
	switch {
	case r.QP != nil:
		c = r.QP.Context
	case r.CQ != nil:
		c = r.CQ.Context
	}
	kind := "?"
	if int(r.Kind) < len(kinds) {
		kind = kinds[r.Kind]
	}
	l := t.begin(r.PID, device(c), kind)
	if l == nil {
		return
	}
	if r.CQ != nil {
		l.hex("cq", uint64(r.CQ.Num))
	}
	if r.QP != nil {
		l.hex("qp", uint64(r.QP.Num))
	}
	switch r.Kind {
	case engine.KindDoorbell:
		l.num("record", int64(r.Index))
		l.num("blocks", int64(r.N))
		l.flag("blueflame", r.BlueFlame)
	case engine.KindArm:
		l.num("ci", int64(r.Index))
		l.num("sn", int64(r.SN))
		l.flag("solicited_only", r.Solicited)
	case engine.KindWQE:
		if len(r.Raw) >= 16 {
			l.wqe(r.QP.Type, r.Raw)
		} else {
			l.num("index", int64(r.Index))
			l.str("op", config.Name("Opcode", opcode.Names, r.Opcode))
		}
		if r.QP.Type != hca.UD && r.QP.Type != hca.RawPacket && r.QP.Type != hca.DCI {
			l.hex("dqpn", uint64(r.PeerQPN))
		}
	case engine.KindRecv:
		if r.SRQ != nil {
			l.hex("srq", uint64(r.SRQ.Num))
		}
		l.num("index", int64(r.Index))
		l.num("bytes", int64(r.N))
	case engine.KindRetry:
		l.num("index", int64(r.Index))
		l.str("why", map[bool]string{true: "RNR", false: "NO_ANSWER"}[r.Syndrome == 0x16])
		l.num("try", int64(r.N))
	case engine.KindCQE:
		l.cqe(r)
	case engine.KindEvent:
		l.num("pi", int64(r.Index))
	case engine.KindState:
		l.str("state", r.State.String())
	}
	if t.raw && len(r.Raw) > 0 {
		l.bytes("raw", r.Raw)
	}
	t.end()
}

var kinds = [...]string{engine.KindDoorbell: "doorbell", engine.KindArm: "arm", engine.KindWQE: "wqe",
	engine.KindRecv: "recv", engine.KindRetry: "retry",
	engine.KindCQE: "cqe", engine.KindEvent: "comp_event", engine.KindState: "state"}

func (l *line) cqe(r *engine.Record) {
	l.num("pi", int64(r.Index))
	l.num("owner", int64(r.Index/max(r.CQ.Entries, 1)&1))
	l.str("op", config.Name("CQE", cqeOpcodes, r.Opcode))
	l.num("wqe_counter", int64(r.WQE))
	switch r.Opcode {
	case 13, 14:
		l.str("syndrome", config.Name("Syndrome", syndromes, r.Syndrome))
		l.hex("vendor", uint64(r.Vendor))
	default:
		l.num("byte_cnt", int64(r.N))
	}
	switch r.Opcode {
	case 0, 13:
		l.str("wqe_op", config.Name("Opcode", opcode.Names, r.WQEOpcode))
	case 1, 3:
		l.hex("imm", uint64(r.Imm))
	case 4:
		l.hex("key", uint64(r.Imm))
	}
	l.flag("SE", r.Solicited)
}

// Command prints a uverbs command and its answer.
func (t *Trace) Command(r *verbs.Record) {
	l := t.begin(r.PID, device(r.Context), "cmd")
	if l == nil {
		return
	}
	l.str("name", r.Name)
	l.fields("req", r.Request)
	l.fields("resp", r.Response)
	l.errno(r.Errno)
	t.end()
}

func (l *line) errno(e unix.Errno) {
	if e == 0 {
		return
	}
	if n := unix.ErrnoName(e); n != "" {
		l.str("errno", n)
	} else {
		l.num("errno", int64(e))
	}
}

// fields prints those fields of a request or an answer that are not zero.
func (l *line) fields(k string, v any) {
	if v == nil {
		return
	}
	l.open(k, '{')
	for _, f := range verbs.Fields(v) {
		name := f.Name
		if name == "" {
			name = "value"
		}
		r := reflect.ValueOf(f.Value)
		switch {
		case r.IsZero() || r.Kind() == reflect.Slice && r.Len() == 0:
		case r.CanUint():
			if u := r.Uint(); r.Kind() == reflect.Uint64 || strings.Contains(strings.ToLower(name), "key") {
				l.hex(name, u)
			} else {
				l.num(name, int64(u))
			}
		case r.CanInt():
			l.num(name, r.Int())
		case r.Kind() == reflect.Array && r.Type().Elem().Kind() == reflect.Uint8:
			l.str(name, fmt.Sprintf("%x", f.Value))
		case r.Kind() == reflect.Slice && r.Type().Elem().Kind() == reflect.Uint8:
			b := r.Bytes()
			l.str(name, hex.EncodeToString(b[:min(len(b), 64)]))
		default:
			l.str(name, fmt.Sprint(f.Value))
		}
	}
	l.close('}')
}

// CM prints a command of the connection manager, or an event of it.
func (t *Trace) CM(r *cm.Record) {
	name, event := strings.CutPrefix(r.Name, "EVENT ")
	kind := "cm"
	if event {
		kind = "cm_event"
	}
	l := t.begin(r.TID, "", kind)
	if l == nil {
		return
	}
	l.str("name", name)
	l.num("id", int64(r.ID))
	if r.Status != 0 {
		l.num("status", int64(r.Status))
	}
	l.errno(r.Errno)
	t.end()
}

// Event prints an asynchronous event.
func (t *Trace) Event(c *hca.Context, typ hca.EventType, element uint64) {
	if l := t.begin(c.PID, device(c), "async_event"); l != nil {
		l.str("name", config.Name("EventType", events, uint8(min(typ, 255))))
		l.hex("element", element)
		t.end()
	}
}

// Fault prints that a fault was injected.
func (t *Trace) Fault(pid int, device, spec string) {
	if l := t.begin(pid, device, "fault"); l != nil {
		l.str("spec", spec)
		t.end()
	}
}
