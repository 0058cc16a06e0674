package mesh

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// fabricNoise is how the figures of a fabric scatter.
type fabricNoise struct {
	name  string
	noise float64 // standard deviation
	half  float64 // share of the tests that have half
}

// at returns a figure that is 1 without noise.
func (f fabricNoise) at(r *rand.Rand) float64 {
	x := max(0.05, 1+f.noise*r.NormFloat64())
	if r.Float64() < f.half {
		x /= 2
	}
	return x
}

// tournament returns the figures of a mesh in which each host meets so many others, both ways.
func tournament(hosts, rounds int, figures func(from, to int) (bits, latency float64)) *Result {
	r := &Result{}
	for i := range hosts {
		r.Hosts = append(r.Hosts, fmt.Sprint("n", i))
	}
	m := hosts + hosts%2 - 1
	for k := range rounds {
		for i := range (hosts + 1) / 2 { // the circle method
			a, b := (k+i)%m, (k+m-i)%m
			if i == 0 {
				b = m
			}
			for _, p := range [][2]int{{a, b}, {b, a}} {
				if max(a, b) == hosts {
					continue // one rests
				}
				bits, latency := figures(p[0], p[1])
				r.Pairs = append(r.Pairs, PairResult{Direction: Direction{From: r.Hosts[p[0]], To: r.Hosts[p[1]]},
					from: p[0], to: p[1],
					Bits: bits, P50: latency})
			}
		}
	}
	return r
}

// TestAlarms: of 500 NICs, one has 12 % less bandwidth. At most one good NIC in 10,000 is named, and in runs that say
// that they can find a loss of 12 %, that NIC is in 95 % of them. The log has the table of docs/rdmaperf/mesh.md.
func TestAlarms(t *testing.T) {
	const hosts, slow, loss = 500, 77, 0.12
	rows := []fabricNoise{{"1 %", 0.01, 0}, {"3 %", 0.03, 0}, {"10 %", 0.1, 0}, {"30 %", 0.3, 0},
		{"1 %, 2 % of the tests at half", 0.01, 0.02}, {"10 %, 2 % of the tests at half", 0.1, 0.02},
		{"1 %, 20 % of the paths at half", 0.01, 0.2}, {"10 %, 20 % of the paths at half", 0.1, 0.2}}
	runs, rounds := 200, []int{3, 8, 31, 127}
	if !testutil.Full() {
		runs, rows, rounds = 20, rows[6:7], rounds[1:2]
	}
	t.Log("| noise | rounds | healthy NICs named | least loss that would have shown | 12 % found | runs that can | " +
		"found in them |")
	t.Log("|---|---|---|---|---|---|---|")
	for _, row := range rows {
		for _, n := range rounds {
			if n > 8 && row.noise != 0.1 || n > 31 && row.half > 0 {
				continue // fewer show as much, or no more
			}
			alarms, found, claims, right := 0, 0, 0, 0
			var shows []float64
			for run := range runs {
				r := rand.New(rand.NewPCG(uint64(run), uint64(n)))
				res := tournament(hosts, n, func(from, to int) (float64, float64) {
					x := row.at(r)
					if from == slow || to == slow {
						x *= 1 - loss
					}
					return 400e9 * x, 2000 / row.at(r)
				})
				res.judge(Outliers{Deviations: 5, Share: 0.1})
				named := map[string]bool{}
				for _, s := range res.SlowHosts {
					named[s.Host] = true
				}
				is := lists.When(named[res.Hosts[slow]], 1)
				found += is
				alarms += len(named) - is
				g := res.Groups[0].Shows
				if g > 0 && g <= loss {
					claims++
					right += is
				} else if g == 0 {
					g = 1
				}
				shows = append(shows, g)
			}
			least := fmt.Sprintf("%.0f %%", 100*Median(shows))
			if Median(shows) == 1 {
				least = "none"
			}
			t.Logf("| %s | %d | %d of %d | %s | %d of %d | %d | %d |", row.name, n, alarms, runs*(hosts-1), least,
				found, runs, claims, right)
			// In 20 runs, one alarm is none too many.
			if alarms*10000 > runs*(hosts-1)+10000*lists.When(runs < 200, 1) || 100*right < 95*claims {
				t.Errorf("%s, %d rounds: %d false alarms in %d runs; of %d runs that can, %d find it", row.name, n,
					alarms, runs, claims, right)
			}
			if row.noise == 0.01 && n == 8 && claims < runs/2 {
				t.Errorf("%d of %d runs say that they can find it", claims, runs)
			}
		}
	}
}

// TestConfirmControls: at 10 % of noise, NICs that have 0.75 of the figure are confirmed, and good ones are not, though
// the load was another one when the suspicion arose.
func TestConfirmControls(t *testing.T) {
	trials := 2000
	if testutil.Full() {
		trials = 20000
	}
	for _, row := range []fabricNoise{{"10 %", 0.1, 0}, {"10 %, some at half", 0.1, 0.02}, {"1 %", 0.01, 0}} {
		for _, figure := range []float64{0.75, 1} {
			confirmed, tests := 0, 0
			for trial := range trials {
				r := rand.New(rand.NewPCG(uint64(trial), 3))
				res := &Result{SlowHosts: []SlowHost{{Host: "s", Part: parts[0], Figure: Figures[0].Key,
					Value: 200e9, Median: 270e9}}}
				c := &second{coordinator: &coordinator{Config: Config{Outliers: Outliers{5, 0.1}}, res: res},
					closed: map[int]bool{}}
				for look := 0; look < mostLooks && !c.closed[0]; look++ {
					for range partners {
						add := func(from, to string, x float64, control bool) {
							tests++
							c.ran = append(c.ran, repeated{repeat{control: control}, PairResult{
								Direction: Direction{From: from, To: to},
								Bits:      400e9 * x * row.at(r)}})
						}
						add("s", "a", figure, false)
						add("b", "c", 1, true)
						add("a", "s", figure, false)
						add("c", "b", 1, true)
					}
					c.compare(look)
				}
				if a := res.SlowHosts[0].Again; a.Confirmed == nil {
					t.Fatal("no verdict")
				} else if *a.Confirmed {
					confirmed++
				}
			}
			t.Logf("noise %s, a NIC at %v: %d of %d confirmed, with %d tests each", row.name, figure, confirmed, trials,
				tests/trials)
			if figure < 1 && 100*confirmed < 99*trials || figure == 1 && 1000*confirmed > trials {
				t.Errorf("noise %s, a NIC at %v: %d of %d confirmed", row.name, figure, confirmed, trials)
			}
		}
	}
}
