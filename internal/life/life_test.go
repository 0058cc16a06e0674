package life

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

func TestMain(m *testing.M) {
	leak.Enable()
	code := m.Run()
	if open := leak.Open(); code == 0 && len(open) > 0 {
		fmt.Printf("%d objects were not closed: %v\n", len(open), open)
		code = 1
	}
	os.Exit(code)
}

var errDestroy = errors.New("cannot be destroyed")

func fine() error { return nil }

// closeIt closes an object that must be closed by that.
func closeIt(t *testing.T, o *Object) {
	t.Helper()
	if done, err := o.Close(fine); err != nil || !done {
		t.Errorf("close: %v, %v", done, err)
	}
}

// within fails the test when c does not come.
func within(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(testutil.Patience):
		t.Fatalf("%s does not come", what)
	}
}

// start runs f in a goroutine and returns a channel that is closed when it has returned.
func start(f func()) <-chan struct{} {
	c := make(chan struct{})
	go func() { defer close(c); f() }()
	return c
}

func TestErrClosed(t *testing.T) {
	if err := fmt.Errorf("close: %w", ErrClosed); !errors.Is(err, ErrClosed) || !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v is not itself, or not net.ErrClosed", err)
	}
}

// TestClose_Children closes parents before and after their children.
func TestClose_Children(t *testing.T) {
	var dev, pd, cq, qp Object
	dev.Init("device", "mlx5_0")
	pd.Init("pd", "mlx5_0/1", &dev)
	cq.Init("cq", "mlx5_0/1", &dev)
	qp.Init("qp", "mlx5_0/0x000011", &pd, &cq)
	mrs := make([]Object, 2)
	for i := range mrs {
		mrs[i].Init("mr", "mlx5_0/1", &pd)
	}
	refuses := func(o *Object, want ...string) {
		t.Helper()
		done, err := o.Close(func() error { t.Error("destroyed with children"); return nil })
		var busy *BusyError
		if done || !errors.As(err, &busy) || !slices.Equal(busy.Children, want) {
			t.Errorf("close: %v, %v; want children %v", done, err, want)
		}
		if !o.Enter() {
			t.Fatal("closed although it was refused")
		}
		o.Leave()
	}
	refuses(&dev, "1 cq", "1 pd")
	refuses(&pd, "1 qp", "2 mr")
	refuses(&cq, "1 qp")
	closeIt(t, &qp)
	closeIt(t, &mrs[0])
	refuses(&pd, "1 mr")
	closeIt(t, &mrs[1])
	closeIt(t, &pd)
	refuses(&dev, "1 cq")
	closeIt(t, &cq)
	closeIt(t, &dev)
	for _, o := range []*Object{&dev, &pd, &cq, &qp} {
		if done, err := o.Close(func() error { t.Error("destroyed twice"); return nil }); done || err != nil {
			t.Errorf("close again: %v, %v", done, err)
		}
		if o.Enter() || o.TryEnter() || o.Lock() || !o.Closed() || o.Shut() {
			t.Error("a closed object can be used")
		}
	}
}

// TestOnEmpty: the call comes with the last child, each time.
func TestOnEmpty(t *testing.T) {
	var dev, channel Object
	dev.Init("device", "mlx5_0")
	channel.Init("channel", "mlx5_0")
	calls := make(chan []string)
	dev.OnEmpty(func() { calls <- append(dev.Children(), channel.Children()...) })
	for range 2 {
		var pd, cq Object
		pd.Init("pd", "mlx5_0/1", &dev)
		cq.Init("cq", "mlx5_0/1", &dev, &channel)
		closeIt(t, &pd)
		select {
		case <-calls:
			t.Error("called while there is a child")
		case <-time.After(10 * time.Millisecond):
		}
		closeIt(t, &cq)
		if c := <-calls; len(c) > 0 { // what the channel has too
			t.Errorf("called with %v", c)
		}
	}
	closeIt(t, &dev)
	closeIt(t, &channel)
}

// TestClose_Fails has a destroy that fails: the object is as it was.
func TestClose_Fails(t *testing.T) {
	var parent, o Object
	parent.Init("pd", "mlx5_0/1")
	o.Init("mr", "mlx5_0/1", &parent)
	for range 2 {
		if done, err := o.Close(func() error { return errDestroy }); done || err != errDestroy {
			t.Fatalf("close: %v, %v", done, err)
		}
		if !o.Enter() || o.Closed() {
			t.Fatal("closed although destroy failed")
		}
		o.Leave()
		if c := parent.Children(); !slices.Equal(c, []string{"1 mr"}) {
			t.Fatalf("children of the parent: %v", c)
		}
	}
	closeIt(t, &o)
	closeIt(t, &parent)
}

// TestClose_Panics has a destroy that panics: others do not hang.
func TestClose_Panics(t *testing.T) {
	var o Object
	func() {
		defer func() { _ = recover() }()
		_, _ = o.Close(func() error { panic("destroy") })
	}()
	if !o.Enter() {
		t.Fatal("closed although destroy panicked")
	}
	o.Leave()
	closeIt(t, &o)
}

// TestClose_Waits closes while somebody is inside, and enters while Close waits.
func TestClose_Waits(t *testing.T) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprint("fails=", fails), func(t *testing.T) {
			var o Object
			if !o.Enter() || !o.TryEnter() {
				t.Fatal("a new object is closed")
			}
			var inside atomic.Int32
			inside.Store(2)
			destroying := make(chan struct{})
			goOn := make(chan struct{})
			closing := start(func() {
				_, _ = o.Close(func() error {
					if n := inside.Load(); n != 0 {
						t.Errorf("destroyed with %d inside", n)
					}
					close(destroying)
					<-goOn
					if fails {
						return errDestroy
					}
					return nil
				})
			})
			for o.TryEnter() { // until Close has begun
				o.Leave()
			}
			entered := make(chan bool, 1)
			started := make(chan struct{})
			late := start(func() { close(started); entered <- o.Enter() })
			<-started
			time.Sleep(time.Millisecond) // most likely it is in Enter then
			for range 2 {
				select {
				case <-destroying:
					t.Fatal("Close did not wait")
				case <-late:
					t.Fatal("Enter did not wait for Close")
				default:
				}
				inside.Add(-1)
				o.Leave()
			}
			within(t, "destroy", destroying)
			if o.TryEnter() {
				t.Error("TryEnter enters what is being destroyed")
			}
			select {
			case <-late:
				t.Error("Enter did not wait for destroy")
			default:
			}
			close(goOn)
			within(t, "the end of Close", closing)
			within(t, "the end of Enter", late)
			if got := <-entered; got != fails {
				t.Errorf("Enter after Close: %v", got)
			} else if got {
				o.Leave()
			}
		})
	}
}

// TestClose_ChildMeanwhile makes a child inside while Close waits: Close refuses.
func TestClose_ChildMeanwhile(t *testing.T) {
	var parent, child Object
	parent.Init("pd", "mlx5_0/1")
	parent.Enter()
	var err error
	closing := start(func() {
		_, err = parent.Close(func() error { t.Error("destroyed with a child"); return nil })
	})
	for parent.TryEnter() {
		parent.Leave()
	}
	child.Init("mr", "mlx5_0/1", &parent)
	parent.Leave()
	within(t, "the end of Close", closing)
	var busy *BusyError
	if !errors.As(err, &busy) {
		t.Errorf("close: %v", err)
	}
	closeIt(t, &child)
	closeIt(t, &parent)
}

// TestShut keeps newcomers out at once, and Close waits for who is inside.
func TestShut(t *testing.T) {
	var o Object
	o.Enter()
	if !o.Shut() || o.Shut() {
		t.Error("Shut does not tell the first call from others")
	}
	if o.Enter() || o.TryEnter() || o.Lock() || !o.Closed() {
		t.Error("an object that is shut can be used")
	}
	o.Leave()
	if done, err := o.Close(func() error { return errDestroy }); done || err != errDestroy {
		t.Errorf("close: %v, %v", done, err)
	}
	if o.Enter() || o.TryEnter() {
		t.Error("a failed Close opened what was shut")
	}
	closeIt(t, &o)
}

// TestMove moves a child while it is locked.
func TestMove(t *testing.T) {
	var a, b, child Object
	a.Init("pd", "mlx5_0/1")
	b.Init("pd", "mlx5_0/2")
	child.Init("mr", "mlx5_0/1", &a)
	if !child.Lock() || child.TryEnter() {
		t.Fatal("not locked")
	}
	child.Move(0, &b)
	child.Unlock()
	closeIt(t, &a)
	if c := b.Children(); !slices.Equal(c, []string{"1 mr"}) {
		t.Errorf("children: %v", c)
	}
	closeIt(t, &child)
	closeIt(t, &b)
}

func TestNumber(t *testing.T) {
	device := fmt.Sprint("test", rand.Uint64()) // the numbers count on when the test runs again
	a, b := Number("cq", device), Number("cq", device)
	if a != device+"/1" || b != device+"/2" || Number("pd", device) != device+"/1" {
		t.Errorf("the first two are %s and %s", a, b)
	}
}

// TestRandom uses, locks, shuts and closes a tree of objects from several goroutines. C frees what Close destroys:
// nobody may be inside then, no child may be left, and each is destroyed once.
func TestRandom(t *testing.T) {
	type object struct {
		Object
		destroyed int
		parent    *object
		inside    atomic.Int32
		locked    atomic.Int32
		young     atomic.Int32 // open children
	}
	var wg sync.WaitGroup
	for round := range 40 {
		root := new(object)
		root.Init("device", "test0")
		objects := []*object{root}
		for i := range 12 {
			o := &object{parent: objects[rand.N(len(objects))]}
			o.parent.Enter()
			o.Init("child", fmt.Sprint("test0/", i), &o.parent.Object)
			o.parent.young.Add(1)
			o.parent.Leave()
			objects = append(objects, o)
		}
		destroy := func(o *object, fail bool) func() error {
			return func() error {
				if o.inside.Load() != 0 || o.locked.Load() != 0 || o.young.Load() != 0 || o.destroyed != 0 {
					t.Errorf("destroyed with %d inside, %d who lock it, %d children, %d times before",
						o.inside.Load(), o.locked.Load(), o.young.Load(), o.destroyed)
				}
				if fail {
					return errDestroy
				}
				o.destroyed++ // the race detector looks whether Close guards it
				if o.parent != nil {
					o.parent.young.Add(-1)
				}
				return nil
			}
		}
		for g := range 6 {
			rng := rand.New(rand.NewPCG(uint64(round), uint64(g)))
			wg.Go(func() {
				for range 300 {
					o := objects[rng.IntN(len(objects))]
					switch k := rng.IntN(100); {
					case k < 40:
						if o.Enter() {
							o.inside.Add(1)
							if o.destroyed != 0 {
								t.Error("entered what is destroyed")
							}
							o.inside.Add(-1)
							o.Leave()
						}
					case k < 75:
						if o.TryEnter() {
							o.inside.Add(1)
							if o.destroyed != 0 || o.locked.Load() != 0 {
								t.Error("entered what is destroyed or locked")
							}
							o.inside.Add(-1)
							o.Leave()
						}
					case k < 85:
						if o.Lock() {
							if o.locked.Add(1) != 1 || o.inside.Load() != 0 || o.destroyed != 0 {
								t.Error("locked what others use")
							}
							o.locked.Add(-1)
							o.Unlock()
						}
					case k < 86:
						o.Shut()
					default:
						if done, err := o.Close(destroy(o, k > 95)); done && err != nil {
							t.Errorf("closed, with %v", err)
						}
					}
				}
			})
		}
		wg.Wait()
		for _, o := range slices.Backward(objects) {
			if _, err := o.Close(destroy(o, false)); err != nil {
				t.Fatalf("close at the end: %v", err)
			}
			if o.destroyed != 1 || !o.Closed() {
				t.Fatalf("destroyed %d times", o.destroyed)
			}
		}
	}
}

func TestAllocs(t *testing.T) {
	var o Object
	if n := testing.AllocsPerRun(100, func() { o.Enter(); o.Leave(); o.TryEnter(); o.Leave() }); n != 0 {
		t.Errorf("entering and leaving allocates %v times", n)
	}
}

func BenchmarkEnter(b *testing.B) {
	var o Object
	b.ReportAllocs()
	for b.Loop() {
		o.TryEnter()
		o.Leave()
	}
}
