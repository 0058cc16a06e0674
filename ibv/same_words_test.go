package ibv

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_SameWords makes the same mistakes on both data paths, which describe them in the same words.
func TestRXE_SameWords(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	if soft(rxe) {
		t.Skip("SoftRoCE has one data path")
	}
	words := map[string]string{}
	for _, path := range []DataPath{DataPathOps, DataPathDirect} {
		s := newSide(t, 0, &CQOptions{DataPath: path})
		names := []string{s.cq.name, "NAME", fmt.Sprintf("%#x", s.mr.Addr()+testMRSize+4), "ADDRESS"}
		qp := func(o QPOptions) *QP {
			recv := s.cq
			if o.Type == XRCSend {
				recv = nil
			}
			if o.Type == RawPacket { // it shares no CQ on the direct data path
				recv = closing(t, must(s.dev.CreateCQ(4, &CQOptions{DataPath: path}))(t))
			}
			o.MaxSendWR, o.MaxRecvWR, o.MaxInline = 4, 4, 40
			q := closing(t, must(s.pd.CreateQP(s.cq, recv, &o))(t))
			names = append(names, q.name, "NAME")
			if o.Type == RawPacket {
				rawReady(t, q)
			} else if recv != nil {
				ok(t, q.Connect(must(q.Endpoint(rxe.Port, rxe.GID))(t), nil))
			}
			return q
		}
		refused := func(o QPOptions) error { return closed(s.pd.CreateQP(s.cq, s.cq, &o)) }
		srq := closing(t, must(s.pd.CreateSRQ(&SRQOptions{MaxWR: 4, DataPath: path}))(t))
		names = append(names, srq.name, "NAME")
		gone := qp(QPOptions{})
		ok(t, gone.Close())
		idle := closing(t, must(s.pd.CreateQP(s.cq, s.cq, nil))(t))
		names = append(names, idle.name, "NAME")
		kinds := map[string]*QP{"RC": qp(QPOptions{}), "UC": qp(QPOptions{Type: UC}), "UD": qp(QPOptions{Type: UD}),
			"XRC": qp(QPOptions{Type: XRCSend}), "SRQ": qp(QPOptions{SRQ: srq}), "closed": gone, "idle": idle,
			"all": qp(QPOptions{SignalAll: true})}
		raw := rxe.Emulated && os.Geteuid() == 0
		if raw {
			kinds["raw"] = qp(QPOptions{Type: RawPacket})
		}
		sge := func(n int) SGE { return s.mr.SGE(0, n) }
		long := SGE{Addr: 1, Length: 1 << 31, LKey: 1}
		text := func(err error) string {
			if err == nil {
				return "none"
			}
			return strings.NewReplacer(names...).Replace(err.Error())
		}
		say := func(name string, err error) {
			if old, twice := words[name]; !twice {
				words[name] = text(err)
			} else if old != text(err) {
				t.Errorf("%s:\n\t%v: %s\n\t%v: %s", name, DataPathOps, old, path, text(err))
			}
		}
		send := func(kind, name string, wr SendWR) {
			_, err := kinds[kind].PostSend([]SendWR{wr})
			say(kind+", "+name, err)
			b := kinds[kind].Batch()
			b.Add(&wr)
			say(kind+", batch, "+name, b.Post())
		}
		for name, wr := range map[string]SendWR{
			"opcode 40": {Opcode: 40}, "opcode 31": {Opcode: 31}, "flush": {Opcode: OpFlush},
			"atomic write": {Opcode: OpAtomicWrite}, "tso": {Opcode: OpTSO},
			"masked swap without Masked": {Opcode: OpMaskedCompareSwap, SGEs: []SGE{sge(8)}},
			"masked add without Masked":  {Opcode: OpMaskedFetchAdd, SGEs: []SGE{sge(8)}},
			"IPCsum":                     {Opcode: OpSend, Flags: IPCsum, SGEs: []SGE{sge(8)}},
			"unknown flag":               {Opcode: OpSend, Flags: 1 << 9, SGEs: []SGE{sge(8)}},
			"two SGEs":                   {Opcode: OpSend, SGEs: []SGE{sge(8), sge(8)}},
			"ten SGEs":                   {Opcode: OpWrite, SGEs: make([]SGE, 60)},
			"long SGE":                   {Opcode: OpSend, SGEs: []SGE{long}},
			"long inline":                {Opcode: OpWrite, Inline: make([]byte, 2000)},
			"inline and SGEs":            {Opcode: OpSend, Inline: make([]byte, 4), SGEs: []SGE{sge(8)}},
			"inline read":                {Opcode: OpRead, Inline: make([]byte, 4)},
			"atomic of 4":                {Opcode: OpFetchAdd, SGEs: []SGE{sge(4)}},
			"atomic of nothing":          {Opcode: OpCompareSwap},
			"remote range":               {Opcode: OpWrite, Remote: s.mr.Remote().At(testMRSize + 4)},
			"no bind":                    {Opcode: OpBindMW},
			"invalidate with data":       {Opcode: OpLocalInv, SGEs: []SGE{sge(8)}},
			"large SRQN":                 {Opcode: OpSend, RemoteSRQN: 1 << 24, SGEs: []SGE{long}},
		} {
			for kind := range kinds {
				if kind != "raw" || name != "IPCsum" { // which is right there
					send(kind, name, wr)
				}
			}
		}
		if raw {
			send("raw", "nothing", SendWR{Opcode: OpSend})
			send("raw", "empty", SendWR{Opcode: OpSend, SGEs: []SGE{sge(0)}})
			send("raw", "empty, inline", SendWR{Opcode: OpSend, Inline: []byte{}})
			if kinds["raw"].sq.frameHead > 0 {
				send("raw", "short", SendWR{Opcode: OpSend, SGEs: []SGE{sge(17)}})
				send("raw", "short, inline", SendWR{Opcode: OpSend, Inline: make([]byte, 17)})
			}
		}
		for name, wr := range map[string]RecvWR{"receive of 60 SGEs": {SGEs: make([]SGE, 60)},
			"long receive": {SGEs: []SGE{long}}} {
			for kind, q := range kinds {
				_, err := q.PostRecv([]RecvWR{wr})
				say(kind+", "+name, err)
			}
			_, err := srq.PostRecv([]RecvWR{wr})
			say("the SRQ itself, "+name, err)
		}
		_, err := srq.PostRecv(make([]RecvWR, 9000))
		say("full SRQ", err)
		_, err = kinds["RC"].PostRecv(make([]RecvWR, 9000))
		say("full receive queue", err)
		for name, call := range map[string]func() error{
			"SetLimit(-1)":        func() error { return srq.SetLimit(-1) },
			"SetLimit":            func() error { return srq.SetLimit(1 << 20) },
			"Resize(0)":           func() error { return s.cq.Resize(0) },
			"Resize":              func() error { return s.cq.Resize(s.dev.attr.MaxCQE + 1) },
			"send queue":          func() error { return refused(QPOptions{MaxSendWR: 1 << 20}) },
			"SGEs of a QP":        func() error { return refused(QPOptions{MaxRecvSGE: 999}) },
			"inline data of a QP": func() error { return refused(QPOptions{MaxInline: 9999}) },
			"type of a QP":        func() error { return refused(QPOptions{Type: DCI}) },
			"XRC QP":              func() error { return refused(QPOptions{Type: XRCSend}) },
			"no CQ":               func() error { return closed(s.pd.CreateQP(nil, nil, nil)) },
			"modify to RTS":       func() error { return idle.Modify(&QPAttr{State: StateRTS}, MaskState) },
			"modify the port": func() error {
				return idle.Modify(&QPAttr{State: StateInit, Port: 9}, MaskState|MaskPort)
			},
			"use of a closed QP": func() error { return gone.Modify(&QPAttr{State: StateErr}, MaskState) },
		} {
			say(name, call())
		}
	}
	if len(words) < 300 {
		t.Errorf("%d mistakes", len(words))
	}
}
