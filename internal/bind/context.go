package bind

import (
	"strings"
	"sync"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
)

// contexts has, by the address of a struct ibv_context, the func(error) error that explains errors of calls on it.
var contexts sync.Map

// WatchContext makes explain see each errno of control.Explained of a call of libibverbs or a provider whose first
// argument is the context, or an object of it, on the thread that made the call.
func WatchContext(ctx uintptr, explain func(error) error) { contexts.Store(ctx, explain) }

// UnwatchContext undoes WatchContext. Call it before the context is freed.
func UnwatchContext(ctx uintptr) { contexts.Delete(ctx) }

// Explain returns the error of a call on a context. For EACCES the goroutine is still locked to the call's thread.
func Explain(ctx uintptr, err error) error {
	if !control.Explained(err) {
		return err
	}
	return explain(ctx, err)
}

func explain(ctx uintptr, err error) error {
	if f, ok := contexts.Load(ctx); ok {
		return f.(func(error) error)(err)
	}
	return err
}

// explained returns the error of a call of a function by name. Objects of these libraries begin with their context.
func explained(name string, args []uintptr, err error) error {
	if len(args) == 0 || numbered[name] || !strings.Contains(name, "_") {
		return err
	}
	switch {
	case !control.Explained(err),
		err == syscall.EACCES && strings.HasPrefix(name, "rdma_"), // which have another file
		err == syscall.EAGAIN && strings.Contains(name, "_get_"):  // there is no event
		return err
	}
	first := args[0]
	if _, ok := contexts.Load(first); !ok {
		if first == 0 || first%8 != 0 { // no object
			return err
		}
		first = *cmem.At[uintptr](first)
	}
	return explain(first, err)
}

// numbered are functions whose first argument is a number. Those of rsocket also are: their names have no underscore.
var numbered = map[string]bool{"ibv_import_device": true, "mlx5dv_dr_action_create_tag": true}
