package spin

import (
	"fmt"
	"testing"
)

// A model of owner.go: goroutines lock and unlock a few times each, in all orders of their steps. Each access to shared
// memory is a step. A plain store goes into the goroutine's store buffer, as on x86, and reaches memory in a later
// step. A locked instruction waits until the buffer is empty. A barrier empties the others' buffers one by one.
//
// On Armv8 the buffer is not in order: only a store-release waits for all stores before it, and a store for those to
// its own address. A load may be performed early: a goroutine takes a value ahead, and uses it at its next load of that
// address unless something between them acquires. Locked instructions do (CASAL), load-acquires, and the barrier.

// Addresses of the model's memory. counter is what the lock guards.
const (
	aOwner = iota
	aFlag0
	_
	_
	aFlag
	aOwners
	aStreak
	aLast
	aLatest
	aWaiting
	aCounter
	addresses
)

const (
	modelActors = 3
	modelFlags  = 2
)

// Program counters, named after the next step.
const (
	pIdle = iota
	pOwner
	pHeld
	pEnter
	pAgain
	pUndo
	pSwap
	pCount
	pOwn
	pOwnFlag
	pOwnEnter
	pOwnOwner
	pOwnDone
	pWait
	pClaim
	pClaimFlag
	pClaimOwner
	pClaimEnd
	pClaimBarrier
	pClaimHeld
	pClaimed
	pWaitDone
	pGiveUp
	pLoad
	pStore
	pUnlock
	pRelease
	pDone
)

// holding are the steps during which a goroutine holds the lock.
var holding = map[uint8]bool{pCount: true, pOwn: true, pOwnFlag: true, pOwnEnter: true, pOwnOwner: true, pOwnDone: true,
	pClaimed: true, pWaitDone: true, pLoad: true, pStore: true, pUnlock: true, pRelease: true}

type modelStore struct {
	addr, val uint8
	release   bool
}

type modelActor struct {
	pc, f, r, k  uint8
	rounds, took uint8
	stores       uint8 // in buf
	buf          [6]modelStore
	ahead, early uint8 // address of what was loaded early plus 1, and its value
}

type modelState struct {
	mem    [addresses]uint8
	actors [modelActors]modelActor
}

// modelRun describes a run of the model, with faults that are in it on purpose.
type modelRun struct {
	rounds [modelActors]uint8
	try    [modelActors]bool // it uses TryLock
	enough uint8
	owned  bool // by the first, at the start

	noBarrier, oneFlag, noSecondLook, pastOwner bool

	arm, plainRelease bool // Unlock is a store-release on arm, unless it is plain
}

func (s *modelState) load(a, addr uint8) uint8 {
	p := &s.actors[a]
	for i := int(p.stores) - 1; i >= 0; i-- {
		if p.buf[i].addr == addr {
			return p.buf[i].val
		}
	}
	if p.ahead == addr+1 {
		p.ahead = 0
		return p.early
	}
	return s.mem[addr]
}

// acquire keeps later loads of a behind what it did so far.
func (s *modelState) acquire(a uint8) { s.actors[a].ahead, s.actors[a].early = 0, 0 }

func (s *modelState) store(a, addr, val uint8) {
	p := &s.actors[a]
	p.buf[p.stores] = modelStore{addr: addr, val: val}
	p.stores++
	if p.ahead == addr+1 {
		s.acquire(a)
	}
}

// drain moves store i from the buffer to memory, 0 is the oldest.
func (s *modelState) drain(a, i uint8) {
	p := &s.actors[a]
	s.mem[p.buf[i].addr] = p.buf[i].val
	copy(p.buf[i:], p.buf[i+1:])
	p.buf[len(p.buf)-1] = modelStore{}
	p.stores--
}

// may reports whether store i of a may be the next one that reaches memory.
func (m *modelRun) may(s *modelState, a, i uint8) bool {
	p := &s.actors[a]
	if i > 0 && (!m.arm || p.buf[i].release) {
		return false
	}
	for _, b := range p.buf[:i] {
		if b.addr == p.buf[i].addr {
			return false
		}
	}
	return true
}

// step executes the next step of a and reports whether it could: a locked instruction waits for an empty buffer, a
// store for room in it.
func (m *modelRun) step(s *modelState, a uint8) bool {
	p := &s.actors[a]
	me := (a + 1) << 2
	locked := func() bool {
		if p.stores == 0 {
			s.acquire(a)
		}
		return p.stores == 0
	}
	if p.stores > 2 {
		return false
	}
	busy := uint8(pWait)
	switch p.pc {
	case pIdle:
		p.f, p.r, p.k = 0, 0, 0
		if p.rounds == 0 {
			p.pc = pDone
			return true
		}
		p.rounds--
		p.pc = pOwner
	case pOwner:
		p.pc = pSwap
		if o := s.load(a, aOwner); o&^3 == me {
			p.f, p.pc = o&3, pHeld
		}
	case pHeld:
		p.pc = pEnter
		if s.load(a, aFlag0+p.f) != 0 {
			p.pc = busy
		}
	case pEnter:
		s.store(a, aFlag0+p.f, 1)
		p.pc = pAgain
	case pAgain:
		p.pc = pUndo
		if s.load(a, aOwner) == me|p.f || m.noSecondLook {
			p.pc = pLoad
		}
	case pUndo:
		s.store(a, aFlag0+p.f, 0)
		p.pc = busy
	case pSwap:
		if !locked() {
			return false
		}
		p.pc = busy
		if s.mem[aFlag0] == 0 {
			s.mem[aFlag0], p.pc = 1, pCount
		}
	case pCount: // of what the holder alone sees, in a step
		p.pc = pLoad
		streak := uint8(0)
		if s.load(a, aLast) == me {
			streak = s.load(a, aStreak) + 1
		} else {
			s.store(a, aLast, me)
		}
		if streak >= m.enough {
			streak, p.pc = 0, pOwn
		}
		s.store(a, aStreak, streak)
	case pOwn:
		if !locked() {
			return false
		}
		p.pc = pLoad
		if (s.load(a, aLatest) == me || s.load(a, aOwners) < modelFlags || m.oneFlag) && s.mem[aWaiting] == 0 {
			s.mem[aWaiting], p.pc = me, pOwnFlag
		}
	case pOwnFlag:
		p.f = s.load(a, aOwners)
		if s.load(a, aLatest) != me {
			if p.f++; m.oneFlag {
				p.f = 1
			}
			s.store(a, aLatest, me)
			s.store(a, aOwners, p.f)
		}
		s.store(a, aFlag, p.f)
		p.pc = pOwnEnter
	case pOwnEnter:
		if !locked() {
			return false
		}
		s.mem[aFlag0+p.f] = 1
		p.pc = pOwnOwner
	case pOwnOwner:
		if !locked() {
			return false
		}
		s.mem[aOwner] = me | p.f
		p.pc = pOwnDone
	case pOwnDone:
		if !locked() {
			return false
		}
		s.mem[aWaiting] = 0
		p.pc = pLoad
	case pWait:
		if !locked() {
			return false
		}
		if s.mem[aWaiting] != 0 {
			if !m.try[a] {
				return false
			}
			p.pc = pIdle
			break
		}
		s.mem[aWaiting] = me
		p.pc = pClaim
	case pClaim:
		if !locked() {
			return false
		}
		p.pc = pClaimFlag
		if s.mem[aFlag0] == 0 {
			s.mem[aFlag0] = 1
			s.store(a, aStreak, 0)
			p.pc = pWaitDone
		}
	case pClaimFlag:
		if p.f = s.load(a, aFlag); p.f != 0 {
			p.pc = pClaimOwner
		} else {
			p.pc = m.again(a)
		}
	case pClaimOwner:
		p.pc = pClaimEnd
		if s.load(a, aOwner) == 0 || m.pastOwner {
			p.pc = pClaimHeld
		}
	case pClaimEnd:
		if !locked() {
			return false
		}
		s.mem[aOwner] = 0
		p.pc = pClaimBarrier
		if m.noBarrier {
			p.pc = pClaimHeld
		}
	case pClaimBarrier:
		for s.actors[p.k].stores > 0 {
			s.drain(p.k, 0)
		}
		s.acquire(p.k)
		if p.k++; p.k == modelActors {
			p.k, p.pc = 0, pClaimHeld
		}
	case pClaimHeld:
		p.pc = pClaimed
		if s.load(a, aFlag0+p.f) != 0 {
			p.pc = m.again(a)
		}
		s.acquire(a)
	case pClaimed:
		s.store(a, aFlag, 0)
		s.store(a, aStreak, 0)
		p.pc = pWaitDone
	case pWaitDone, pGiveUp:
		if !locked() {
			return false
		}
		s.mem[aWaiting] = 0
		if p.pc == pWaitDone {
			p.pc = pLoad
		} else {
			p.pc = pIdle
		}
	case pLoad:
		p.r, p.f = s.load(a, aCounter), 0
		p.took++
		p.pc = pStore
	case pStore:
		s.store(a, aCounter, p.r+1)
		p.pc = pUnlock
	case pUnlock:
		p.f = s.load(a, aFlag)
		p.pc = pRelease
	case pRelease:
		s.store(a, aFlag0+p.f, 0)
		p.buf[p.stores-1].release = m.arm && !m.plainRelease
		p.pc = pIdle
	case pDone:
		return false
	}
	return true
}

// early has a load an address before its turn, and reports whether it may.
func (m *modelRun) early(s *modelState, a, addr uint8) bool {
	p := &s.actors[a]
	switch {
	case !m.arm || p.ahead != 0 || p.pc == pDone || p.pc == pIdle:
		return false
	case addr != aOwner && addr != aCounter && addr != aFlag && (addr < aFlag0 || addr >= aFlag):
		return false // only the holder uses it
	}
	for _, b := range p.buf[:p.stores] {
		if b.addr == addr {
			return false
		}
	}
	p.ahead, p.early = addr+1, s.mem[addr]
	return true
}

// again continues after a look at a lock that is held: with another look, or for TryLock with none.
func (m *modelRun) again(a uint8) uint8 {
	if m.try[a] {
		return pGiveUp
	}
	return pClaim
}

// wrong describes a violation in s, "" if there is none.
func (s *modelState) wrong() string {
	in, done, took := 0, 0, uint8(0)
	for _, p := range s.actors {
		if holding[p.pc] {
			in++
		}
		if p.pc == pDone && p.stores == 0 {
			done++
		}
		took += p.took
	}
	switch {
	case in > 1:
		return "two hold the lock"
	case done == modelActors && s.mem[aCounter] != took:
		return fmt.Sprintf("the counter is %d after %d holders", s.mem[aCounter], took)
	}
	return ""
}

// explore visits all states. It returns their number, how often an owner locked without a locked instruction, and the
// first violation, or "".
func (m *modelRun) explore() (states, entered int, wrong string) {
	var first modelState
	for a := range first.actors {
		first.actors[a].rounds = m.rounds[a]
	}
	if m.owned {
		first.mem[aOwner], first.mem[aFlag0], first.mem[aFlag], first.mem[aOwners] = 1<<2|1, 1, 1, 1
		first.mem[aLast], first.mem[aLatest] = 1<<2, 1<<2
	}
	number := map[modelState]int32{first: 0}
	list := []modelState{first}
	before := [][]int32{nil} // the states that each can come from
	var ends []int32
	for i := 0; i < len(list); i++ {
		if w := list[i].wrong(); w != "" {
			return len(list), entered, w
		}
		moves := 0
		add := func(s modelState) {
			moves++
			n, ok := number[s]
			if !ok {
				n = int32(len(list))
				number[s] = n
				list = append(list, s)
				before = append(before, nil)
			}
			before[n] = append(before[n], int32(i))
		}
		for a := range uint8(modelActors) {
			if s := list[i]; m.step(&s, a) {
				if list[i].actors[a].pc == pAgain && s.actors[a].pc == pLoad {
					entered++
				}
				add(s)
			}
			for k := range list[i].actors[a].stores {
				if s := list[i]; m.may(&s, a, k) {
					s.drain(a, k)
					add(s)
				}
			}
			for addr := range uint8(addresses) {
				if s := list[i]; m.early(&s, a, addr) {
					add(s)
				}
			}
		}
		if moves == 0 {
			for _, p := range list[i].actors {
				if p.pc != pDone {
					return len(list), entered, fmt.Sprintf("nobody can go on: %+v", list[i])
				}
			}
			ends = append(ends, int32(i))
		}
	}
	// An end can be reached from everywhere.
	seen := make([]bool, len(list))
	for len(ends) > 0 {
		n := ends[len(ends)-1]
		ends = ends[:len(ends)-1]
		if !seen[n] {
			seen[n] = true
			ends = append(ends, before[n]...)
		}
	}
	for i, ok := range seen {
		if !ok {
			return len(list), entered, fmt.Sprintf("no way to an end: %+v", list[i])
		}
	}
	return len(list), entered, ""
}

// never makes nobody an owner, as the lock is on arm64.
const never = 9

func TestModel(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  modelRun
		want string // a part of what is wrong
	}{
		{"all may own", modelRun{rounds: [3]uint8{2, 2, 1}}, ""},
		{"second time", modelRun{rounds: [3]uint8{3, 1, 1}, enough: 1}, ""},
		{"owned", modelRun{rounds: [3]uint8{2, 2, 1}, owned: true}, ""},
		{"try", modelRun{rounds: [3]uint8{2, 2, 1}, try: [3]bool{false, true, true}, owned: true}, ""},
		{"owner tries", modelRun{rounds: [3]uint8{2, 2, 1}, try: [3]bool{true, false, true}, owned: true}, ""},
		{"without barrier", modelRun{rounds: [3]uint8{1, 1, 0}, owned: true, noBarrier: true}, "two hold"},
		{"without second look", modelRun{rounds: [3]uint8{1, 1, 0}, owned: true, noSecondLook: true}, "two hold"},
		{"owner stays", modelRun{rounds: [3]uint8{1, 1, 0}, owned: true, pastOwner: true}, "two hold"},
		{"one flag for all", modelRun{rounds: [3]uint8{1, 2, 1}, owned: true, oneFlag: true}, "two hold"},
		{"Armv8", modelRun{rounds: [3]uint8{2, 1, 0}, enough: never, arm: true}, ""},
		{"Armv8, all may own", modelRun{rounds: [3]uint8{2, 1, 0}, arm: true}, ""},
		{"Armv8, owned", modelRun{rounds: [3]uint8{2, 1, 0}, owned: true, arm: true}, ""},
		{"Armv8, plain release", modelRun{rounds: [3]uint8{1, 1, 0}, enough: never, arm: true, plainRelease: true},
			"the counter"},
		{"Armv8, owner's plain release",
			modelRun{rounds: [3]uint8{1, 1, 0}, owned: true, arm: true, plainRelease: true}, "the counter"},
		{"Armv8, no barrier", modelRun{rounds: [3]uint8{1, 1, 0}, owned: true, arm: true, noBarrier: true}, "two hold"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			states, entered, wrong := tt.run.explore()
			t.Logf("%d states, %d entries of owners; %s", states, entered, wrong)
			if tt.want == "" && (wrong != "" || entered == 0 && tt.run.enough != never) {
				t.Errorf("wrong: %s", wrong)
			}
			if tt.want != "" && (len(wrong) < len(tt.want) || wrong[:len(tt.want)] != tt.want) {
				t.Errorf("wrong: %q, want %q", wrong, tt.want)
			}
		})
	}
}
