package mmio_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/litmus"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// step describes what an instruction does to memory or to the order of memory, with the line of rdma-core v65.0 that it
// pairs with.
type step struct{ does, pairs string }

// The barriers by rdma-core's names. wqesDone is an instruction on arm64 only: on amd64 stores are seen in program
// order, and the compiler does not move them across the call of an assembly function.
const (
	wqesDone = "udma_to_device_barrier: "
	wcStart  = "mmio_wc_start: "
	wcFlush  = "mmio_flush_writes: "
)

// orders lists all functions of the package that access memory which the device sees. args are the names of the
// arguments by their offset.
var orders = map[string]struct {
	args         map[int]string
	amd64, arm64 []step
}{
	"RingSend": {
		map[int]string{0: "dbrec", 8: "record", 16: "reg", 24: "ctrl"},
		nil, // there the first store is inlined, as TestStoreInlined shows, and ring has the rest
		[]step{
			{"DMB OSHST", wqesDone + "providers/mlx5/qp.c:768"},
			{"4 bytes: dbrec+0 = record", "providers/mlx5/qp.c:769"},
			{"DSB ST", wcStart + "providers/mlx5/qp.c:778"},
			{"8 bytes: reg+0 = ctrl", "providers/mlx5/qp.c:786"},
			{"DSB ST", wcFlush + "providers/mlx5/qp.c:798"},
		},
	},
	"ring": {
		map[int]string{0: "reg", 8: "ctrl"},
		[]step{
			{"SFENCE", wcStart + "providers/mlx5/qp.c:778"},
			{"8 bytes: reg+0 = ctrl", "providers/mlx5/qp.c:786"},
			{"SFENCE", wcFlush + "providers/mlx5/qp.c:798"},
		},
		nil,
	},
	"RingSendBlueFlame": {
		map[int]string{0: "dbrec", 8: "record", 16: "reg", 24: "wqe", 32: "blocks", 40: "start", 48: "end"},
		slices.Concat([]step{
			{"4 bytes: dbrec+0 = record", "providers/mlx5/qp.c:769"},
			{"SFENCE", wcStart + "providers/mlx5/qp.c:778"},
		}, copies(), []step{
			{"SFENCE", wcFlush + "providers/mlx5/qp.c:798"},
		}),
		[]step{
			{"DMB OSHST", wqesDone + "providers/mlx5/qp.c:768"},
			{"4 bytes: dbrec+0 = record", "providers/mlx5/qp.c:769"},
			{"DSB ST", wcStart + "providers/mlx5/qp.c:778"},
			{"64 bytes: load wqe+0", "util/mmio.h:245"},
			{"64 bytes: reg+0 = *(wqe+0)", "mlx5_bf_copy, providers/mlx5/qp.c:305; util/mmio.h:245"},
			{"DSB ST", wcFlush + "providers/mlx5/qp.c:798"},
		},
	},
	"Record": {
		map[int]string{0: "dbrec", 8: "record"},
		nil, // not assembly there: TestStoreInlined
		[]step{
			{"DMB OSHST", wqesDone + "providers/mlx5/qp.c:3891, srq.c:316"},
			{"4 bytes: dbrec+0 = record", "providers/mlx5/qp.c:3902, srq.c:318"},
		},
	},
	"Consumed": {
		map[int]string{0: "dbrec", 8: "ci"},
		nil, // not assembly there: TestStoreInlined
		[]step{
			{"DMB OSH", "none: rdma-core leaves the loads of an entry and this store unordered, and has no CQ.Empty"},
			{"4 bytes: dbrec+0 = ci", "update_cons_index, providers/mlx5/cq.c:161"},
		},
	},
	"Moved": {
		map[int]string{0: "dbrec", 8: "ci"},
		[]step{
			{"4 bytes: dbrec+0 = ci", "update_cons_index, providers/mlx5/cq.c:161"},
		},
		[]step{
			{"DMB OSH", "udma_to_device_barrier in __mlx5_cq_clean, providers/mlx5/cq.c:1866, and loads"},
			{"4 bytes: dbrec+0 = ci", "update_cons_index, providers/mlx5/cq.c:161"},
		},
	},
	"ArmCQ": {
		map[int]string{0: "armRec", 8: "record", 16: "reg", 24: "cmd"},
		[]step{
			{"4 bytes: armRec+0 = record", "mlx5_arm_cq, providers/mlx5/cq.c:1741"},
			{"SFENCE", wcStart + "providers/mlx5/cq.c:1747"},
			{"8 bytes: reg+0 = cmd", "providers/mlx5/cq.c:1749"},
			{"SFENCE", wcFlush + "providers/mlx5/cq.c:1751"},
		},
		[]step{
			{"DMB OSHLD", "none: as in Consumed"},
			{"4 bytes: armRec+0 = record", "mlx5_arm_cq, providers/mlx5/cq.c:1741"},
			{"DSB ST", wcStart + "providers/mlx5/cq.c:1747"},
			{"8 bytes: reg+0 = cmd", "providers/mlx5/cq.c:1749"},
			{"DSB ST", wcFlush + "providers/mlx5/cq.c:1751"},
		},
	},
	"Loaded": {
		nil,
		nil, // nothing to do there, and so not there
		[]step{
			{"DMB OSHLD", "udma_from_device_barrier: providers/mlx5/cq.c:555"},
		},
	},
	"LoadCQE": {
		map[int]string{0: "p"},
		nil, // not assembly there: TestLoadCQE
		[]step{
			{"8 bytes: load p+0", "get_sw_cqe, providers/mlx5/cq.c:147"},
			{"DMB OSHLD", "udma_from_device_barrier: providers/mlx5/cq.c:555"},
		},
	},
}

// copies are the ascending stores of a BlueFlame block on amd64. C: mmio_memcpy_x64.
func copies() []step {
	var s []step
	for i := 0; i < 64; i += 8 {
		s = append(s,
			step{fmt.Sprintf("8 bytes: load wqe+%d", i), "util/mmio.h:279"},
			step{fmt.Sprintf("8 bytes: reg+%d = *(wqe+%d)", i, i),
				"mlx5_bf_copy, providers/mlx5/qp.c:305; util/mmio.h:279"})
	}
	return s
}

// TestOrder disassembles the linked package and follows each function. The stores, loads and barriers must be those of
// orders, in that order. An instruction that this test does not know, such as a locked one, fails it.
func TestOrder(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) {
			funcs := disassemble(t, arch, `internal/mmio\.`)
			for name, o := range orders {
				want := o.amd64
				if arch == "arm64" {
					want = o.arm64
				}
				body, ok := funcs[name+".abi0"]
				if ok != (want != nil) {
					t.Errorf("%s: in the binary: %v", name, ok)
					continue
				}
				got, err := follow(arch, o.args, body)
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				for i := range max(len(got), len(want)) {
					switch {
					case i >= len(want):
						t.Errorf("%s: step %d: %q, want no more", name, i, got[i])
					case i >= len(got) || got[i] != want[i].does:
						t.Errorf("%s: step %d: %q, want %q (%s); all of it:\n\t%s", name, i, at(got, i), want[i].does,
							want[i].pairs, strings.Join(got, "\n\t"))
					}
					if i >= len(got) || i >= len(want) || got[i] != want[i].does {
						break
					}
				}
			}
			for name := range funcs { // or the wrapper that a function value calls
				if _, ok := orders[strings.TrimSuffix(name, ".abi0")]; !ok {
					t.Errorf("%s: a function that this test does not know", name)
				}
			}
		})
	}
}

func at(s []string, i int) string {
	if i < len(s) {
		return s[i]
	}
	return "the end"
}

// On amd64 LoadCQE is inlined in its callers as a plain load of 8 bytes without an LFENCE.
func TestLoadCQE(t *testing.T) {
	var loads []string
	for _, i := range disassemble(t, "amd64", `mmio_test\.loads$`)["loads"] {
		if strings.HasPrefix(i.File, "load_amd64.go") || strings.HasPrefix(i.File, "mmio_unsafe_test.go") {
			if f := strings.Fields(i.Text); strings.Contains(f[0], "FENCE") || strings.HasPrefix(f[0], "LOCK") ||
				strings.HasPrefix(f[0], "XCHG") {
				t.Errorf("%s", i.Text)
			} else if strings.HasPrefix(f[0], "MOV") && strings.Contains(f[1], "(") && !strings.Contains(f[1], "(SP)") {
				loads = append(loads, i.Text)
			}
		}
	}
	if len(loads) != 2 || !strings.HasPrefix(loads[0], "MOVQ 0x38(") || !strings.HasPrefix(loads[1], "MOVQ 0(") {
		t.Errorf("loads %q, want that of the entry's end and then that of its start", loads)
	}
}

// On amd64 Consumed, Record and the first half of RingSend are inlined in their callers as a plain store each. They
// stay behind the load and the store before them, and ring comes last.
func TestStoreInlined(t *testing.T) {
	var got []string
	for _, i := range disassemble(t, "amd64", `mmio_test\.stores$`)["stores"] {
		f := strings.Fields(i.Text)
		if strings.Contains(f[0], "FENCE") || strings.HasPrefix(f[0], "LOCK") || strings.HasPrefix(f[0], "XCHG") {
			t.Errorf("%s", i.Text)
		}
		switch {
		case f[0] == "CALL" && strings.Contains(i.Text, "mmio.ring"):
			got = append(got, "ring")
		case !strings.HasPrefix(f[0], "MOV") || !strings.Contains(i.Text, "(") || strings.Contains(i.Text, "(SP)"):
		case strings.Contains(f[1], "("):
			got = append(got, "load")
		default:
			got = append(got, "store "+f[2][:strings.IndexByte(f[2], '(')])
		}
	}
	if want := []string{"load", "store 0x8", "store 0x40", "store 0", "store 0x80", "ring"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// disassemble builds this package's test for an architecture and returns the functions that match a pattern, by their
// unqualified names.
func disassemble(t *testing.T, arch, pattern string) litmus.Code {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	code, err := litmus.Disassemble(ctx, t.TempDir(), arch, ".", pattern)
	if err != nil {
		t.Fatal(err)
	}
	funcs := litmus.Code{}
	for name, body := range code {
		_, name, _ = strings.Cut(name, ".")
		funcs[name] = body
	}
	return funcs
}

var (
	memAMD64 = regexp.MustCompile(`^(-?(?:0x)?[0-9a-f]+)\((\w+)\)$`)
	memARM64 = regexp.MustCompile(`^(-?\d*)\((\w+)\)$`)
)

// follow returns the steps of a function. It knows the instructions of this package and no others.
func follow(arch string, args map[int]string, body []litmus.Instruction) ([]string, error) {
	var steps []string
	reg := map[string]string{} // what a register holds
	mem, stack := memAMD64, "SP"
	if arch == "arm64" {
		mem, stack = memARM64, "RSP"
	}
	// place is the memory that an operand names, relative to an argument.
	place := func(o string) (string, bool, error) {
		m := mem.FindStringSubmatch(o)
		if m == nil {
			return "", false, nil
		}
		off := 0
		if m[1] != "" {
			if _, err := fmt.Sscan(m[1], &off); err != nil {
				return "", true, err
			}
		}
		if m[2] == stack { // above the return address, or the saved link register
			if a, ok := args[off-8]; ok {
				return "&" + a, true, nil
			}
			return fmt.Sprintf("stack+%d", off), true, nil
		}
		base, ok := reg[m[2]]
		if !ok {
			return "", true, fmt.Errorf("%s holds nothing known", m[2])
		}
		return fmt.Sprintf("%s+%d", base, off), true, nil
	}
	move := func(size int, from, to string) error {
		value, isLoad, err := place(from)
		if err != nil {
			return err
		}
		if isLoad {
			if a, ok := strings.CutPrefix(value, "&"); ok {
				value = a
			} else {
				steps = append(steps, fmt.Sprintf("%d bytes: load %s", size, value))
				value = "*(" + value + ")"
			}
		} else if value = reg[from]; value == "" {
			return fmt.Errorf("%s holds nothing known", from)
		}
		target, isStore, err := place(to)
		switch {
		case err != nil:
			return err
		case !isStore:
			reg[to] = value
		case !strings.HasPrefix(target, "stack"): // a result is no store that the device sees
			steps = append(steps, fmt.Sprintf("%d bytes: %s = %s", size, target, value))
		}
		return nil
	}
	for _, i := range body {
		op, rest, _ := strings.Cut(i.Text, " ")
		o := strings.Split(rest, ", ")
		var err error
		switch arch + " " + op {
		case "amd64 MOVQ":
			err = move(8, o[0], o[1])
		case "amd64 MOVL":
			err = move(4, o[0], o[1])
		case "amd64 SFENCE":
			steps = append(steps, op)
		case "amd64 ADDQ", "amd64 DECQ", "amd64 CMPQ", "amd64 JNE", "amd64 RET", "amd64 INT",
			"amd64 NOPL", "amd64 NOPW":
			if op == "ADDQ" && strings.Contains(rest, "(") {
				err = fmt.Errorf("an operation on memory")
			}
		case "arm64 MOVD":
			err = move(8, o[0], o[1])
		case "arm64 MOVW", "arm64 MOVWU":
			err = move(4, o[0], o[1])
		case "arm64 DMB", "arm64 DSB":
			kind, ok := map[string]string{"$1": " OSHLD", "$2": " OSHST", "$3": " OSH", "$14": " ST"}[rest]
			if !ok {
				err = fmt.Errorf("an unknown kind of barrier")
			}
			steps = append(steps, op+kind)
		case "arm64 VLD1.P", "arm64 VST1.P":
			const vectors = "[V0.B16, V1.B16, V2.B16, V3.B16]"
			if from, ok := strings.CutSuffix(rest, ", "+vectors); ok {
				o = []string{strings.TrimPrefix(from, "64"), "V"}
			} else if to, ok := strings.CutPrefix(rest, vectors+", "); ok {
				o = []string{"V", strings.TrimPrefix(to, "64")}
			}
			err = move(64, o[0], o[1])
		case "arm64 SUB", "arm64 CMP", "arm64 BNE", "arm64 CBNZ", "arm64 RET", "arm64 ?", "arm64 NOOP":
		default:
			err = fmt.Errorf("an instruction that this package must not have")
		}
		if err != nil {
			return steps, fmt.Errorf("%s: %w", i.Text, err)
		}
	}
	return steps, nil
}
