//go:build linux

package posts

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// buffers are the lists of SGEs that a receive may have. On UD the first SGE has 40 bytes more.
var buffers = []struct {
	name string
	sges func(mr *ibv.MR, at, more, most int) []ibv.SGE
	bad  func(most int) mistake
}{
	{"none", func(*ibv.MR, int, int, int) []ibv.SGE { return nil }, nil},
	{"8 bytes", func(mr *ibv.MR, at, more, _ int) []ibv.SGE { return []ibv.SGE{mr.SGE(at, more+8)} }, nil},
	{"100 bytes", func(mr *ibv.MR, at, more, _ int) []ibv.SGE { return []ibv.SGE{mr.SGE(at, more+100)} }, nil},
	{"an empty SGE", func(mr *ibv.MR, at, _, _ int) []ibv.SGE { return []ibv.SGE{mr.SGE(at, 0)} }, nil},
	{"an empty SGE before another", func(mr *ibv.MR, at, more, _ int) []ibv.SGE {
		return []ibv.SGE{mr.SGE(at, 0), mr.SGE(at, more+100)}
	}, nil},
	{"2 SGEs", func(mr *ibv.MR, at, more, _ int) []ibv.SGE {
		return []ibv.SGE{mr.SGE(at+150, more+20), mr.SGE(at, 90)}
	}, nil},
	{"2 SGEs, of which the first takes a part of the header", func(mr *ibv.MR, at, more, _ int) []ibv.SGE {
		return []ibv.SGE{mr.SGE(at+150, 20), mr.SGE(at, more+90)}
	}, nil},
	{"as many SGEs as may be", func(mr *ibv.MR, at, more, most int) []ibv.SGE {
		s := []ibv.SGE{mr.SGE(at, more+3)}
		for i := range most - 1 {
			s = append(s, mr.SGE(at+100+i*8, 7))
		}
		s[most-1].Length = 120
		return s
	}, nil},
	{"too many SGEs", func(mr *ibv.MR, at, more, most int) (s []ibv.SGE) {
		for range most + 1 {
			s = append(s, mr.SGE(at, more+1))
		}
		return s
	}, func(most int) mistake {
		return mistake{what: "sge", limited: true, asked: uint64(most + 1), limit: uint64(most)}
	}},
	{"2 GiB", long(0, 1<<31), tooLong(0, 1<<31)},
	{"4 GiB - 1", long(0, 1<<32-1), tooLong(0, 1<<32-1)},
	{"2 GiB in the second SGE", long(1, 1<<31+1), tooLong(1, 1<<31+1)},
	{"MR.SGE(-5, 8)", ofMR(-5, 8), func(int) mistake { return mistake{what: "SGE 0", got: "MR.SGE(-5, 8)"} }},
	{"beyond", ofMR(sizeB-4, 5), func(int) mistake {
		return mistake{what: "SGE 0", got: fmt.Sprintf("MR.SGE(%d, 5)", sizeB-4)}
	}},
	{"negative", ofMR(16, -1), func(int) mistake {
		return mistake{what: "SGE 0", got: "MR.SGE(16, a negative length)"}
	}},
	{"4 GiB", ofMR(16, 1<<32), func(int) mistake { return mistake{what: "SGE 0", got: "MR.SGE(16, 4 GiB or more)"} }},
}

func long(i int, n uint32) func(*ibv.MR, int, int, int) []ibv.SGE {
	return func(mr *ibv.MR, at, more, _ int) []ibv.SGE {
		s := []ibv.SGE{mr.SGE(at, more+8), mr.SGE(at, more+8)}[:i+1]
		s[i].Length = n
		return s
	}
}

func tooLong(i int, n uint64) func(int) mistake {
	return func(int) mistake {
		return mistake{what: fmt.Sprintf("length of sge %d", i), limited: true, asked: n, limit: 1<<31 - 1}
	}
}

func ofMR(off, n int) func(*ibv.MR, int, int, int) []ibv.SGE {
	return func(mr *ibv.MR, _, _, _ int) []ibv.SGE { return []ibv.SGE{mr.SGE(off, n)} }
}

// TestRXE_PostsRecv compares QP.PostRecv and SRQ.PostRecv with the model, and the data paths with each other: which
// receives are accepted, the errors for the others, and the messages that arrive in the accepted ones.
func TestRXE_PostsRecv(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	if !rxe.Emulated {
		t.Skip("compares the two data paths: runs on the emulated device only")
	}
	tab := newTable(t, rxe)
	defer tab.close()
	texts := make(map[string]string)
	for _, typ := range []ibv.QPType{ibv.RC, ibv.UC, ibv.UD} {
		for _, srq := range []bool{false, true} {
			for _, path := range []ibv.DataPath{ibv.DataPathOps, ibv.DataPathDirect} {
				p, err := tab.newPair(engine{path: path}, typ, kind{srq: srq})
				tab.must(err)
				p.bare, p.b.recvs = true, nil
				tab.must(p.renewSRQ())
				for i := range buffers {
					for _, alone := range []bool{true, false} {
						for _, n := range []int{0, 1, 8, 30, 60, 100, -8} { // below 0: a write with immediate
							if n < 0 && typ == ibv.UD {
								continue
							}
							p.cell = fmt.Sprintf("receive of %s, alone %v, message of %d", buffers[i].name, alone, n)
							tab.cells++
							if err := p.receive(i, alone, n, texts); err != nil {
								t.Fatalf("%v: %s: %v", p, p.cell, err)
							}
						}
					}
				}
				tab.must(p.close())
			}
		}
	}
	t.Logf("%d cells, %d refused; %d completions, %d times connected again", tab.cells, tab.refused, tab.completions,
		tab.renewed)
	if tab.cells < 2000 || tab.refused < 700 || tab.completions < 3000 {
		t.Error("that is too little: nothing was tested")
	}
}

// renewSRQ connects a pair again, with a new SRQ without receives.
func (p *pair) renewSRQ() error {
	if !p.srq {
		return p.renew()
	}
	was := p.b
	b, err := newEnd(p.t.hosts[1], p.engine, p.typ, p.kind, sizeB)
	if err != nil {
		return err
	}
	if b.at, err = b.qp.Endpoint(p.t.rxe.Port, p.t.rxe.GID); err != nil {
		return err
	}
	p.b = b
	return errors.Join(was.qp.Close(), was.srq.Close(), was.cq.Close(), was.mr.Close(), p.renew())
}

// receive posts a receive, alone or between two good ones, and sends a message for each one that was accepted.
func (p *pair) receive(i int, alone bool, n int, texts map[string]string) error {
	p.shuffle()
	more, most := 0, p.b.qp.Cap().MaxRecvSGE
	if p.typ == ibv.UD {
		more = grh
	}
	post := p.b.qp.PostRecv
	if p.srq {
		most = p.b.srq.Cap().MaxSGE
		post = p.b.srq.PostRecv
	}
	var wrs []ibv.RecvWR
	for k := range 3 {
		wr := ibv.RecvWR{ID: 1<<33 + p.nextID(), SGEs: []ibv.SGE{p.b.mr.SGE(1024+k*512, more+200)}}
		if k == 1 {
			wr.SGEs = buffers[i].sges(p.b.mr, 1024+k*512, more, most)
		} else if alone {
			continue
		}
		wrs = append(wrs, wr)
	}
	want := len(wrs)
	if buffers[i].bad != nil {
		want /= 2
		p.t.refused++
	}
	got, err := post(wrs)
	if got != want || (err == nil) != (want == len(wrs)) {
		return fmt.Errorf("%d posted, want %d: %v", got, want, err)
	}
	if err != nil {
		bad := buffers[i].bad(most)
		var ae *ibv.ArgError
		var le *ibv.LimitError
		var inner error
		switch {
		case bad.limited && errors.As(err, &le) && *le == (ibv.LimitError{What: bad.what, Asked: bad.asked,
			Limit: bad.limit, Where: le.Where}):
			inner = le
		case !bad.limited && errors.As(err, &ae) && ae.Arg == bad.what && ae.Got == bad.got:
			inner = ae
		default:
			return fmt.Errorf("refused with %T %v, want %+v", err, err, bad)
		}
		op, name := "post recv", p.b.qp.String()
		if p.srq {
			op, name = "post srq recv", p.b.srq.String()
		}
		_, name, _ = strings.Cut(name, " of ")
		if full := fmt.Sprintf("%s %s: work request %d: %v", op, name, got, inner); err.Error() != full {
			return fmt.Errorf("the error is\n%v, want\n%s", err, full)
		}
		text := strings.ReplaceAll(inner.Error(), name, "QUEUE")
		key := fmt.Sprint(buffers[i].name, " ", p.kind.srq, most)
		if before := texts[key]; before != "" && before != text {
			return fmt.Errorf("the error is told as\n%s, elsewhere as\n%s", text, before)
		}
		texts[key] = text
	}
	for _, wr := range wrs[:got] {
		p.b.recvs = append(p.b.recvs, recv{wr.ID, slices.Clone(wr.SGEs)})
	}
	for _, wr := range wrs { // the list may be used again
		for k := range wr.SGEs {
			wr.SGEs[k] = ibv.SGE{Addr: 1, Length: 2, LKey: 3}
		}
	}
	for range got {
		j := &job{wr: ibv.SendWR{ID: p.nextID(), Opcode: ibv.OpSendImm, Flags: ibv.Signaled,
			SGEs: []ibv.SGE{p.a.mr.SGE(17, max(n, -n))}, Imm: uint32(p.id) * 0x10003}}
		if n < 0 {
			j.wr.Opcode, j.wr.Remote = ibv.OpWriteImm, p.b.mr.Remote().At(8)
		}
		if p.typ == ibv.UD {
			p.address(&j.wr, theAH)
		}
		if k, err := p.a.qp.PostSend([]ibv.SendWR{j.wr}); k != 1 || err != nil {
			return err
		}
		p.execute(j)
		if err := p.compare(); err != nil {
			return err
		}
		if p.failed {
			return p.renewSRQ()
		}
	}
	return nil
}
