package schedule

import (
	"math/bits"
	"math/rand/v2"
)

// sample returns some of the rounds of a tournament, without a pair that occurs twice. The first two are a cycle of all
// hosts, or where one rests a path, so that all figures can be compared. From three on any two hosts are near: no
// further apart than far. The choice depends on the numbers alone, so that repeated runs can be compared.
func sample(n, some int) [][]Pair {
	m := n + n%2
	if m <= fewHosts || some > mostRandom {
		return rotated(n, m, some)
	}
	r := rand.New(rand.NewPCG(uint64(m), 0))
	order := r.Perm(m)
	used := map[Pair]bool{}
	rounds := make([][]Pair, some)
	for i := range rounds {
		switch i {
		case 0:
		case 1:
			order = append(order[1:], order[0])
		default: // a cycle with random chords has a small diameter
			order = shuffled(r, m, used)
		}
		for k := 0; k < m; k += 2 {
			rounds[i] = append(rounds[i], Pair{order[k], order[k+1]})
			used[sorted(order[k], order[k+1])] = true
		}
	}
	return rounds
}

const (
	fewHosts   = 64 // up to which rounds of the circle method are chosen
	mostRandom = 16 // rounds; more of the circle method are near enough, and have no pair twice
)

// far is how far two hosts may be apart, in pairs.
func far(n int) int {
	twice := 2 * (bits.Len(uint(n)) - 1) // of the logarithm, rounded down
	if n&(n-1) != 0 && uint64(n)*uint64(n) >= 1<<(twice+1) {
		twice++
	}
	return twice + 2
}

func sorted(a, b int) Pair { return Pair{min(a, b), max(a, b)} }

// shuffled returns hosts in a random order in which no two that are next to each other, as a pair, were used.
func shuffled(r *rand.Rand, m int, used map[Pair]bool) []int {
	order := r.Perm(m)
	for k := 0; k < m; k += 2 {
		for used[sorted(order[k], order[k+1])] {
			l := r.IntN(m)
			if l/2 == k/2 || used[sorted(order[l^1], order[k+1])] {
				continue
			}
			order[k+1], order[l] = order[l], order[k+1]
		}
	}
	return order
}

// rotated chooses rounds of the circle method: the first two, and others at random, until hosts are near.
func rotated(n, m, some int) (rounds [][]Pair) {
	for seed := range uint64(1000) {
		chosen := append([]int{0, 1}, rand.New(rand.NewPCG(uint64(m), seed)).Perm(m-1)...)
		rounds = nil
		for i, r := range chosen {
			if len(rounds) < some && (i < 2 || r > 1) && r < m-1 {
				rounds = append(rounds, circle(m, r))
			}
		}
		if some < 3 || m > fewHosts || diameter(n, rounds[:3]) <= far(n) {
			break
		}
	}
	return rounds
}

// diameter returns how far the two hosts are apart that are furthest, in pairs; n if they are not connected.
func diameter(n int, rounds [][]Pair) (most int) {
	near := make([][]int, n)
	for _, list := range rounds {
		for _, p := range played(n, 0, list) {
			near[p.From], near[p.To] = append(near[p.From], p.To), append(near[p.To], p.From)
		}
	}
	for from := range n {
		most = max(most, reach(near, from))
	}
	return most
}

// reach returns how far the furthest host is from one; their number if one cannot be reached.
func reach(near [][]int, from int) int {
	at := make([]int, len(near))
	at[from] = 1
	queue := []int{from}
	for i := 0; i < len(queue); i++ {
		for _, to := range near[queue[i]] {
			if at[to] == 0 {
				at[to] = at[queue[i]] + 1
				queue = append(queue, to)
			}
		}
	}
	if len(queue) < len(near) {
		return len(near)
	}
	return at[queue[len(queue)-1]] - 1
}
