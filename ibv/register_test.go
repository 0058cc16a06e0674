package ibv

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// Registers are allocated one for each queue pair, up to a number, and then take turns.
func TestRegistersTakeTurns(t *testing.T) {
	for have := range mostRegisters + 3 {
		var r registers
		var got []int
		for range 3 * mostRegisters {
			i, err := r.pick(func() (uintptr, error) {
				if len(r.tds) == have {
					return 0, syscall.ENOSPC
				}
				return uintptr(100 + len(r.tds)), nil
			})
			if have == 0 {
				wantErr(t, err, syscall.ENOSPC)
				continue
			}
			ok(t, err)
			got = append(got, i)
		}
		for i, g := range got {
			if want := i % min(have, mostRegisters); g != want {
				t.Fatalf("%d registers: %v", have, got)
			}
		}
	}
}

// A device without thread domains has queue pairs of one kind at a time: Go's or libmlx5's.
func TestRegistersShared(t *testing.T) {
	for _, first := range []bool{false, true} {
		r := registers{none: syscall.EOPNOTSUPP}
		refused := func() {
			t.Helper()
			_, err := r.share(!first)
			wantErr(t, err, ErrNotSupported, "opened once more", "operation not supported")
		}
		one, two := must(r.share(first))(t), must(r.share(first))(t)
		refused()
		r.leave(one)
		r.leave(nil) // of a QP with a register of its own
		refused()
		r.leave(two)
		other := must(r.share(!first))(t)
		_, err := r.share(first)
		wantErr(t, err, ErrNotSupported)
		r.leave(other)
		if r.byGo != 0 || r.byLibs != 0 {
			t.Errorf("%d and %d queue pairs are left", r.byGo, r.byLibs)
		}
	}
	var r registers // with thread domains none of Go's share
	must(r.share(false))(t)
}

// TestRXE_RegistersOfTheirOwn: no register that libmlx5 copies WQEs to gets doorbells of 8 bytes from Go, whoever was
// first.
func TestRXE_RegistersOfTheirOwn(t *testing.T) {
	if soft(testutil.NeedRXE(t)) {
		t.Skip("SoftRoCE has no registers")
	}
	paths := []DataPath{DataPathOps, DataPathDirect, DataPathRaw}
	for _, order := range [][]DataPath{paths, {DataPathDirect, DataPathRaw, DataPathOps}} {
		s := newSide(t, 0, nil)
		lib, _ := s.dev.mlx5()
		libs, own := map[uintptr]int{}, map[uintptr]int{}
		var close []interface{ Close() error }
		for _, path := range order {
			cq := must(s.dev.CreateCQ(64, &CQOptions{DataPath: path}))(t)
			close = append(close, cq)
			srq := must(s.pd.CreateSRQ(&SRQOptions{MaxWR: 1, DataPath: path}))(t)
			close = append(close, srq)
			for i := range 24 {
				o := QPOptions{MaxSendWR: 1, MaxRecvWR: 1, Type: []QPType{RC, UC, UD, XRCSend}[i%4]}
				recv := cq
				if o.Type == XRCSend {
					recv = nil
				} else if i%3 == 0 {
					o.SRQ = srq
				}
				if i == 20 { // new QPs get no payloads in completions
					mr := must(s.pd.AllocNullMR())(t)
					close = append(close, mr)
				}
				qp := must(s.pd.CreateQP(cq, recv, &o))(t)
				close = append(close, qp)
				bf := must(lib.InitQP(qp.handle, 0))(t).BF
				switch {
				case path == DataPathOps && bf.Size > 0:
					libs[bf.Reg]++
				case path != DataPathOps:
					own[bf.Reg]++
				}
			}
		}
		for reg := range own {
			if libs[reg] > 0 {
				t.Errorf("%v: %d QPs of libmlx5 and %d of Go on register %#x", order, libs[reg], own[reg], reg)
			}
		}
		if len(libs) == 0 || len(own) < mostRegisters/2 {
			t.Errorf("%v: %d registers of libmlx5, %d of Go", order, len(libs), len(own))
		}
		// What is made for the registers does not outlive the PD.
		for _, c := range slices.Backward(close) {
			ok(t, c.Close())
		}
		ok(t, s.mr.Close())
		ok(t, s.pd.Close())
		again := must(s.dev.AllocPD())(t)
		cq := must(s.dev.CreateCQ(4, &CQOptions{DataPath: DataPathDirect}))(t)
		ok(t, errors.Join(closed(again.CreateQP(cq, cq, nil)), again.Close(), cq.Close()))
		if r := &s.dev.direct.registers; r.byGo != 0 || r.byLibs != 0 {
			t.Errorf("%d and %d closed QPs count", r.byGo, r.byLibs)
		}
		if fmt.Sprint(s.pd.rung) != fmt.Sprint([mostRegisters]uintptr{}) {
			t.Error("a closed PD has parent domains")
		}
	}
}
