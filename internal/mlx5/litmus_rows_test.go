//go:build amd64 && !race

package mlx5

import (
	"slices"

	"github.com/pureverbs/pureverbs/internal/litmus"
	"github.com/pureverbs/pureverbs/internal/spin"
)

// unlocks is a thread that unlocks the lock which is the argument, and locks one that takes it.
func unlocks(argument string, m litmus.Model) part {
	path := at[spin.Lock](argument, "flags")
	if m == litmus.AMD64 { // one of the flags
		path = "~" + at[spin.Lock](argument, "flag")
	}
	return part{
		steps:  []any{"spin.(*Lock).Unlock"},
		places: []litmus.Place{{Name: "lock", Path: path}},
		must:   []string{"lock"},
	}
}

func locks(m litmus.Model) part {
	p := part{
		steps:  []any{"spin.(*Lock).Lock"},
		places: []litmus.Place{{Name: "lock", Path: at[spin.Lock]("a0", "flags"), Val: 1, Go: &one}},
		must:   []string{"lock"},
	}
	if m == litmus.AMD64 {
		p.steps[0] = "spin.take.abi0"
	}
	return p
}

var rows = []row{{
	name: "RingSend: the register before the record or the WQE",
	parts: func(litmus.Model) []part {
		return []part{posts(litmus.Program{store("wqe", 1)})}
	},
	device: []litmus.Program{{await("register", 1), load("record"), load("wqe")}},
	bad: func(r map[string]int, _ litmus.End) bool {
		record, ok := r["1:record"]
		wqe, also := r["1:wqe"]
		return ok && record == 0 || also && wqe == 0
	},
	needs: map[litmus.Model][]string{
		litmus.AMD64: {"SFENCE before register"},
		litmus.ARM64: {"DSB ST before register"},
	},
}, {
	name: "RingSend: the record before the WQE",
	parts: func(litmus.Model) []part {
		return []part{posts(litmus.Program{store("wqe", 1)})}
	},
	device: []litmus.Program{{load("record"), branch("record", 1), load("wqe")}},
	bad: func(r map[string]int, _ litmus.End) bool {
		wqe, ok := r["1:wqe"]
		return ok && wqe == 0
	},
	needs: map[litmus.Model][]string{litmus.ARM64: {"DMB OSHST before record"}},
}, {
	name: "CQE: the owner bit before the body",
	parts: func(m litmus.Model) []part {
		return []part{looks(m, litmus.Program{load("body")})}
	},
	device: []litmus.Program{{store("body", 1), store("owner", 1)}},
	bad: func(r map[string]int, _ litmus.End) bool {
		body, ok := r["0:body"]
		return ok && r["0:owner#0"] == 1 && body == 0
	},
	needs: map[litmus.Model][]string{litmus.ARM64: {"DMB OSHLD before body"}},
}, {
	name: "LoadCQE: the owner bit before the body",
	parts: func(m litmus.Model) []part {
		p := looks(m, litmus.Program{load("body")})
		if m == litmus.ARM64 {
			p.steps[0] = "mmio.LoadCQE.abi0"
			p.places[0].Path = "a0+0"
		}
		return []part{p}
	},
	device: []litmus.Program{{store("body", 1), store("owner", 1)}},
	bad: func(r map[string]int, _ litmus.End) bool {
		body, ok := r["0:body"]
		return ok && r["0:owner#0"] == 1 && body == 0
	},
	needs: map[litmus.Model][]string{litmus.ARM64: {"DMB OSHLD before body"}},
}, {
	name:   "Consumed: the body of the next lap",
	init:   map[string]int{"body": 1},
	parts:  func(litmus.Model) []part { return []part{consumes} },
	device: []litmus.Program{{await("consumed", 1), store("body", 2)}},
	bad:    func(r map[string]int, _ litmus.End) bool { return r["0:body"] == 2 },
	needs:  map[litmus.Model][]string{litmus.ARM64: {"DMB OSH before consumed"}},
}, {
	name: "slot by way of the device",
	parts: func(m litmus.Model) []part {
		return []part{posts("mlx5.(*SQ).commit"), looks(m, litmus.Program{load("slot")})}
	},
	device: []litmus.Program{{await("record", 1), store("owner", 1)}},
	bad: func(r map[string]int, _ litmus.End) bool {
		slot, ok := r["1:slot"]
		return ok && r["1:owner#0"] == 1 && slot == 0
	},
	needs: map[litmus.Model][]string{litmus.ARM64: {"DMB OSHLD before slot", "DMB OSHST before record"}},
}, {
	name: "done: the slot is overwritten before it is read",
	init: map[string]int{"slot": 1},
	parts: func(litmus.Model) []part {
		return []part{{
			steps:  []any{litmus.Program{load("slot")}, "mlx5.(*QP).publish"},
			places: []litmus.Place{{Name: "done", Path: at[QP]("a0", "SQ.done"), Val: 1}},
			must:   []string{"slot", "done"},
		}, {
			steps: []any{"mlx5.(*SQ).room", litmus.Program{branch("done#0", 1)}, "mlx5.(*SQ).commit"},
			places: []litmus.Place{
				{Name: "done", Path: at[SQ]("a0", "done"), Go: &one},
				{Name: "slot", Path: in[SQ]("b0", "slots"), Val: 2},
			},
			must: []string{"done", "slot"},
		}}
	},
	bad:   func(r map[string]int, _ litmus.End) bool { return r["0:slot"] == 2 },
	needs: map[litmus.Model][]string{litmus.ARM64: {"STLR done"}},
}, {
	name: "RQ.done: the list is overwritten before it is read",
	init: map[string]int{"list": 1},
	parts: func(litmus.Model) []part {
		return []part{{
			steps:  []any{litmus.Program{load("list")}, "mlx5.(*QP).publish"},
			places: []litmus.Place{{Name: "done", Path: at[QP]("a0", "RQ.done"), Val: 1}},
			must:   []string{"list", "done"},
		}, {
			steps:  []any{"mlx5.(*RQ).room", litmus.Program{branch("done#0", 1), store("list", 2)}},
			places: []litmus.Place{{Name: "done", Path: at[RQ]("a0", "done"), Go: &one}},
			must:   []string{"done"},
		}}
	},
	bad:   func(r map[string]int, _ litmus.End) bool { return r["0:list"] == 2 },
	needs: map[litmus.Model][]string{litmus.ARM64: {"STLR done"}},
}, {
	name: "doorbells of two holders of a lock",
	init: map[string]int{"lock": 1},
	parts: func(m litmus.Model) []part {
		first, last := posts(), unlocks("b0", m)
		first.steps = append(first.steps, last.steps...)
		first.places = append(first.places, last.places...)
		first.must = append(first.must, last.must...)
		second := locks(m)
		second.steps = append(second.steps, "mlx5.(*SQ).Ring")
		second.places = append(second.places,
			litmus.Place{Name: "register", Path: in[SQ]("b0", "reg"), Val: 2, Kind: litmus.Combine})
		second.must = append(second.must, "register")
		return []part{first, second}
	},
	bad: func(_ map[string]int, e litmus.End) bool {
		h := e.History["register"]
		return slices.Index(h, 2) >= 0 && slices.Index(h, 2) < len(h)-1 && h[len(h)-1] == 1
	},
	// On arm64 the lock's STLR has the same effect as the DSB before it.
	needs: map[litmus.Model][]string{litmus.AMD64: {"SFENCE before lock"}},
}, {
	name: "a lock: the next holder reads what it guards",
	init: map[string]int{"lock": 1},
	parts: func(m litmus.Model) []part {
		first, second := unlocks("a0", m), locks(m)
		first.steps = append([]any{litmus.Program{store("guarded", 1)}}, first.steps...)
		second.steps = append(second.steps, litmus.Program{load("guarded")})
		return []part{first, second}
	},
	bad: func(r map[string]int, _ litmus.End) bool {
		guarded, ok := r["1:guarded"]
		return ok && guarded == 0
	},
	needs: map[litmus.Model][]string{litmus.ARM64: {"STLR lock"}},
}, {
	name: "a lock: the next holder overwrites what it guards",
	init: map[string]int{"lock": 1},
	parts: func(m litmus.Model) []part {
		first, second := unlocks("a0", m), locks(m)
		first.steps = append([]any{litmus.Program{load("guarded")}}, first.steps...)
		second.steps = append(second.steps, litmus.Program{store("guarded", 2)})
		return []part{first, second}
	},
	bad:   func(r map[string]int, _ litmus.End) bool { return r["0:guarded"] == 2 },
	needs: map[litmus.Model][]string{litmus.ARM64: {"STLR lock"}},
}, {
	name:   "Empty: the entry of the next lap",
	init:   map[string]int{"owner": 1, "ring": 1},
	parts:  func(litmus.Model) []part { return []part{consumes, looksEmpty} },
	device: []litmus.Program{{await("consumed", 1), store("owner", 2)}},
	bad: func(r map[string]int, _ litmus.End) bool {
		again, ok := r["1:index#1"]
		return ok && r["1:index#0"] == 0 && r["1:owner#0"] == 2 && again == 0
	},
	needs: map[litmus.Model][]string{litmus.ARM64: {"DMB OSH before consumed", "DMB OSHLD before index"}},
}, {
	name: "Empty: the ring is hidden",
	init: map[string]int{"ring": 1},
	parts: func(litmus.Model) []part {
		return []part{{
			steps: []any{"mlx5.(*CQ).Hide", "mlx5.(*CQ).moveTo"},
			places: []litmus.Place{
				{Name: "ring", Path: at[CQ]("a0", "ring")},
				{Name: "index", Path: at[CQ]("b0", "ci"), Val: 1},
			},
			must: []string{"ring", "index"},
		}, looksEmpty}
	},
	bad: func(r map[string]int, _ litmus.End) bool {
		ring, ok := r["1:ring#1"]
		return ok && r["1:index#0"] == 1 && r["1:index#1"] == 1 && ring == 1
	},
	needs: map[litmus.Model][]string{litmus.ARM64: {"DMB OSHLD before index", "STLR index"}},
}, {
	name: "Moved: the body of the next lap",
	init: map[string]int{"body": 1},
	parts: func(litmus.Model) []part {
		p := consumes
		p.steps = []any{litmus.Program{load("body")}, "mlx5.(*CQ).moveTo"}
		return []part{p}
	},
	device: []litmus.Program{{await("consumed", 1), store("body", 2)}},
	bad:    func(r map[string]int, _ litmus.End) bool { return r["0:body"] == 2 },
	needs:  map[litmus.Model][]string{litmus.ARM64: {"DMB OSH before consumed"}},
}, {
	name: "Moved: the body of an entry that moved",
	parts: func(litmus.Model) []part {
		p := consumes
		p.steps = []any{litmus.Program{store("body", 1)}, "mlx5.(*CQ).moveTo"}
		return []part{p}
	},
	device: []litmus.Program{{await("consumed", 1), load("body")}},
	bad: func(r map[string]int, _ litmus.End) bool {
		body, ok := r["1:body"]
		return ok && body == 0
	},
	needs: map[litmus.Model][]string{litmus.ARM64: {"DMB OSH before consumed"}},
}, {
	name:   "ArmCQ: the register before the arming record",
	parts:  func(litmus.Model) []part { return []part{arms} },
	device: []litmus.Program{{await("register", 1), load("armed")}},
	bad: func(r map[string]int, _ litmus.End) bool {
		armed, ok := r["1:armed"]
		return ok && armed == 0
	},
	needs: map[litmus.Model][]string{
		litmus.AMD64: {"SFENCE before register"},
		litmus.ARM64: {"DSB ST before register"},
	},
}, {
	name: "ArmCQ: the body of the next lap",
	init: map[string]int{"body": 1},
	parts: func(litmus.Model) []part {
		p := arms
		p.steps = []any{litmus.Program{load("body")}, "mlx5.(*CQ).Arm"}
		return []part{p}
	},
	device: []litmus.Program{{await("armed", 1), store("body", 2)}}, // its record has the index
	bad:    func(r map[string]int, _ litmus.End) bool { return r["0:body"] == 2 },
	needs:  map[litmus.Model][]string{litmus.ARM64: {"DMB OSHLD before armed"}},
}, {
	name: "RQ: the completion before pi",
	parts: func(m litmus.Model) []part {
		p := looks(m, "mlx5.(*RQ).complete")
		p.places = append(p.places, litmus.Place{Name: "pi", Path: at[RQ]("b0", "pi")})
		p.must = append(p.must, "pi")
		return []part{{
			steps: []any{"mlx5.(*RQ).ring"},
			places: []litmus.Place{
				{Name: "pi", Path: at[RQ]("a0", "pi"), Val: 1},
				{Name: "record", Path: to[RQ]("a0", "dbrec", 0), Val: 1},
			},
			must: []string{"pi", "record"},
		}, p}
	},
	device: []litmus.Program{{await("record", 1), store("owner", 1)}},
	bad: func(r map[string]int, _ litmus.End) bool {
		pi, ok := r["1:pi#0"]
		return ok && r["1:owner#0"] == 1 && pi == 0
	},
	needs: map[litmus.Model][]string{litmus.ARM64: {"DMB OSHLD before pi", "DMB OSHST before record"}},
}, {
	name: "RQ, SRQ: the record before the WQE",
	parts: func(litmus.Model) []part {
		return []part{{
			steps:  []any{litmus.Program{store("wqe", 1)}, "mlx5.(*RQ).ring"},
			places: []litmus.Place{{Name: "record", Path: to[RQ]("a0", "dbrec", 0), Val: 1}},
			must:   []string{"record"},
		}, {
			steps:  []any{litmus.Program{store("other", 1)}, "mlx5.(*SRQ).ring"},
			places: []litmus.Place{{Name: "another", Path: to[SRQ]("a0", "dbrec", 0), Val: 1}},
			must:   []string{"another"},
		}}
	},
	device: []litmus.Program{
		{load("record"), branch("record", 1), load("wqe")},
		{load("another"), branch("another", 1), load("other")},
	},
	bad: func(r map[string]int, _ litmus.End) bool {
		wqe, ok := r["2:wqe"]
		other, also := r["3:other"]
		return ok && wqe == 0 || also && other == 0
	},
	needs: map[litmus.Model][]string{litmus.ARM64: {"DMB OSHST before another", "DMB OSHST before record"}},
}}
