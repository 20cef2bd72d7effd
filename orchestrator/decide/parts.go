package decide

import (
	"bytes"
	"cmp"
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

// This file is about a for_each with many items. It is divided into parts, each of which is a child task with a history of its
// own. A part has a step in the task of the for_each, such as each[1000..1999].

const (
	// partItems is how many items a part has, and a for_each that is not divided has at most.
	partItems = 1000
	// maxUndivided limits the items of a for_each that cannot be divided.
	maxUndivided = 10_000
	// maxOpenParts limits the parts of a for_each that are open at a time.
	maxOpenParts = 4
	// chunkBytes is the size from which a list of items ends. Each list is one large value, which its parts read.
	chunkBytes = 128 << 10
)

// sizeOfPart returns how many items a part of a for_each has, or 0 if its items are not divided. It returns VALIDATION_ERROR if
// they should be, and cannot.
func (t steps) sizeOfPart(n *plan.Node, items int) (int, error) {
	size := cmp.Or(t.Rules.PartItems, partItems)
	waiting := n.WaitsForSignal()
	switch {
	case items <= size, waiting != "" && items <= maxUndivided:
		return 0, nil
	case waiting != "":
		return 0, fault.New(fault.ValidationError, "step %q: for_each has %d items, more than %d, and its step %q waits for a signal", n.ID, items, maxUndivided, waiting).
			WithReason("LIMIT_EXCEEDED").WithHint("a signal reaches the steps of the task that it is sent to, and so many items are divided among several tasks")
	}
	return size, nil
}

// divide records the items of a for_each that is divided into parts of size items.
func (t steps) divide(key string, items []json.RawMessage, size int) {
	total := 0
	for _, raw := range items {
		total += len(raw)
	}
	d := &events.Divided{Step: key, Total: len(items), Size: size, Chunk: size * max(1, chunkBytes*len(items)/max(total, 1)/size)}
	for chunk := range slices.Chunk(items, d.Chunk) {
		d.Lists = append(d.Lists, t.offload(joined(chunk)))
	}
	t.activate()
	t.Emit(events.StepDivided, d)
}

// joined returns the JSON of a list.
func joined(items []json.RawMessage) json.RawMessage {
	size := 2
	for _, raw := range items {
		size += len(raw) + 1
	}
	b := append(make([]byte, 0, size), '[')
	for i, raw := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, raw...)
	}
	return append(b, ']')
}

// elements returns count elements of a list in compact JSON, from the one at position from.
func elements(list json.RawMessage, from, count int) []json.RawMessage {
	items := make([]json.RawMessage, 0, count)
	depth, begin, at, inText := 0, 1, 0, false
	for i := 0; i < len(list) && len(items) < count; i++ {
		switch c := list[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '[' || c == '{':
			depth++
		case depth == 1 && (c == ',' || c == ']'):
			if at >= from {
				items = append(items, list[begin:i:i])
			}
			at, begin = at+1, i+1
		case c == ']' || c == '}':
			depth--
		}
	}
	return items
}

// Parts yields the number of each part of a for_each, from 0, and its step; nil for a part that has not begun.
func Parts(t *statemachine.Task, d *events.Divided) iter.Seq2[int, *statemachine.Step] {
	return func(yield func(int, *statemachine.Step) bool) {
		for i := 0; i*d.Size < d.Total; i++ {
			if !yield(i, t.Steps[partKey(d, i)]) {
				return
			}
		}
	}
}

// itemsOfPart returns the index of the first item of a part, and how many items it has.
func itemsOfPart(d *events.Divided, i int) (first, count int) {
	first = i * d.Size
	return first, min(d.Size, d.Total-first)
}

// partKey returns the key of a part of a for_each.
func partKey(d *events.Divided, i int) string {
	first, count := itemsOfPart(d, i)
	return d.Step + "[" + strconv.Itoa(first) + ".." + strconv.Itoa(first+count-1) + "]"
}

// SucceededItems counts the items of the parts of a for_each that have succeeded.
func SucceededItems(t *statemachine.Task, d *events.Divided) (items int) {
	for i, s := range Parts(t, d) {
		if s != nil && s.State == statemachine.StepSucceeded {
			_, count := itemsOfPart(d, i)
			items += count
		}
	}
	return items
}

// DividedOf returns the for_each that a part belongs to, and the number of the part; nil for any other step.
func DividedOf(t *statemachine.Task, key string) (d *events.Divided, i int) {
	id, rest, _ := strings.Cut(key, "[")
	first, _, isPart := strings.Cut(rest, "..")
	each := t.Steps[id]
	at, err := strconv.Atoi(first)
	if !isPart || each == nil || each.Divided == nil || err != nil {
		return nil, 0
	}
	return each.Divided, at / each.Divided.Size
}

// PartOf returns the data of a part of a for_each for its task.
func (t *Reading) PartOf(key string) *events.Part {
	d, i := DividedOf(t.Task, key)
	if d == nil {
		return nil
	}
	first, count := itemsOfPart(d, i)
	return &events.Part{
		Step: d.Step, List: d.Lists[first/d.Chunk], From: first % d.Chunk, First: first, Count: count,
		Parallel: t.Task.Steps[key].Parallel, Known: t.knownTo(t.Plan.Program.Node(d.Step)),
	}
}

// knownTo returns the results of the steps that a for_each needs.
func (t *Reading) knownTo(n *plan.Node) []events.Known {
	var all []events.Known
	for _, id := range n.Needs {
		if s := t.Task.Steps[id]; s != nil {
			all = append(all, events.Known{Step: id, State: string(s.State), Output: s.Output, Error: s.Error, Attempts: s.Attempt})
		}
	}
	return all
}

// known returns the result of a step of the parent that the task of a part knows; nil for any other step.
func (t *Reading) known(id string) *events.Known {
	if t.Task.Part == nil {
		return nil
	}
	if i := slices.IndexFunc(t.Task.Part.Known, func(k events.Known) bool { return k.Step == id }); i >= 0 {
		return &t.Task.Part.Known[i]
	}
	return nil
}

// startPart records the items of a part.
func (t steps) startPart(key string) {
	part := t.Task.Part
	raw := t.Fetch(part.List)
	if len(t.Missing) > 0 {
		return
	}
	items := elements(raw, part.From, part.Count)
	var err error
	if len(items) < part.Count {
		err = fault.New(fault.DataLoss, "the list of items is too short")
	}
	if err = t.OutcomeOf(err); err != nil {
		t.failStep(key, err)
		return
	}
	values := make([]events.Value, len(items))
	for i, item := range items {
		values[i] = t.value(item)
	}
	t.activate()
	t.Emit(events.StepExpanded, &events.Expanded{Step: key, Items: values})
}

// FirstItem returns the index of the first item of a for_each in this task.
func (t *Reading) FirstItem(each string) int {
	if part := t.Task.Part; part != nil && part.Step == each {
		return part.First
	}
	return 0
}

// partCount is how far the parts of a for_each are.
type partCount struct {
	// open is how many parts are open, parallel how many items they may have under way together.
	open, parallel int
	// waiting are the parts that have not begun.
	waiting []int
	// size is the size of the outputs, in bytes.
	size int64
	// failed is the last part that failed; nil for none.
	failed *statemachine.Step
}

func (t steps) countParts(d *events.Divided) (all partCount) {
	for i, s := range Parts(t.Task, d) {
		switch {
		case s == nil:
			all.waiting = append(all.waiting, i)
		case !s.State.Terminal():
			all.open++
			all.parallel += s.Parallel
		case s.State == statemachine.StepSucceeded:
			all.size += s.Output.Len()
		default:
			all.failed = s
		}
	}
	return all
}

// moveParts starts parts of a for_each, and ends the for_each when its parts have ended.
func (t steps) moveParts(n *plan.Node, s *statemachine.Step) {
	all := t.countParts(s.Divided)
	tooLarge := checkOutputSize(all.size)
	if all.failed == nil && tooLarge == nil {
		t.startParts(n, s.Divided, &all)
	}
	switch {
	case all.open > 0 || t.stopped() || t.Task.Ending && !t.isAlways(s.Key):
	case all.failed != nil:
		t.Emit(events.StepFailed, &events.StepError{Step: s.Key, Error: all.failed.Error, Class: all.failed.Class})
	case tooLarge != nil:
		t.failStep(s.Key, tooLarge)
	default:
		t.endParts(s)
	}
}

// startParts starts parts within the bounds of the for_each: max_parallel holds for all of them together. If an item that fails
// ends the for_each, only one part is open at a time, so that no item of another part begins after the failure.
func (t steps) startParts(n *plan.Node, d *events.Divided, all *partCount) {
	limit := maxOpenParts
	if n.OnItemError != plan.OnErrorContinue {
		limit = 1
	}
	parallel := t.parallelOf(n)
	for _, i := range all.waiting {
		share := min((parallel+limit-1)/limit, parallel-all.parallel)
		if all.open == limit || share <= 0 || t.stopped() {
			return
		}
		if most := t.Task.Submitted.MaxSteps; most > 0 && t.Task.Calls >= most && !t.isAlways(d.Step) && callsTools(n) {
			t.End(t.errMaxSteps())
			return
		}
		t.activate()
		t.Emit(events.StepSpawned, &events.Spawned{Step: partKey(d, i), Child: events.TaskIDFrom(t.Now, t.Rules.Entropy), Parallel: share})
		all.open++
		all.parallel += share
	}
}

// callsTools reports whether the items of a for_each call tools.
func callsTools(n *plan.Node) bool {
	return slices.ContainsFunc(n.Children, func(child *plan.Node) bool { return child.Kind == plan.KindTool })
}

// endParts ends a for_each whose parts have succeeded: its output is the outputs of the parts in a row.
func (t steps) endParts(s *statemachine.Step) {
	var lists []json.RawMessage
	for _, part := range Parts(t.Task, s.Divided) {
		lists = append(lists, t.Fetch(part.Output))
	}
	if len(t.Missing) > 0 {
		return
	}
	if err := t.OutcomeOf(nil); err != nil {
		t.failStep(s.Key, err)
		return
	}
	t.Emit(events.StepSucceeded, &events.Succeeded{Step: s.Key, Output: t.value(concatenated(lists))})
}

// concatenated returns one list with the elements of lists, all of them compact JSON.
func concatenated(lists []json.RawMessage) json.RawMessage {
	var inner []json.RawMessage
	for _, list := range lists {
		if elements := bytes.TrimSuffix(bytes.TrimPrefix(list, []byte("[")), []byte("]")); len(elements) > 0 {
			inner = append(inner, elements)
		}
	}
	return joined(inner)
}

// EndPart records the end of a part with its result.
func (t *Turn) EndPart(step string, r PartResult) {
	if r.Error == nil {
		t.Emit(events.StepSucceeded, &events.Succeeded{Step: step, Output: r.Output, Calls: r.Calls})
		return
	}
	t.Emit(events.StepFailed, &events.StepError{Step: step, Error: r.Error, Class: r.Class, Calls: r.Calls})
	if r.OutOfSteps {
		t.End(t.errMaxSteps())
	}
}

// parentPaused is the reason of the pause of a part whose parent is paused.
const parentPaused = "the task of the for_each is paused"

// FollowWhole makes the task of a part follow that of its for_each, of which step is the part: it pauses, resumes or ends.
func (t *Turn) FollowWhole(whole Reading, step string) {
	paused := whole.Task.Paused && !whole.Task.Cancelling
	switch {
	case t.Task.State.Terminal() || t.Task.Part == nil:
	case whole.Task.Ending && !whole.isAlways(step):
		t.End(whole.Task.Error)
	case paused && !t.Task.Paused:
		t.Emit(events.TaskPaused, &events.Paused{Reason: parentPaused})
	case !paused && t.Task.Paused && t.Task.PauseReason == parentPaused:
		t.Emit(events.TaskResumed, &events.Paused{})
	}
}

// PartResult is how a part has ended.
type PartResult struct {
	// Output is the output of the items. Error and Class are set if the part failed.
	Output events.Value
	Error  *fault.Error
	Class  string
	// Calls is how many calls the part made. OutOfSteps is set if it needed more than limits.max_steps allows.
	Calls      int
	OutOfSteps bool
}

// fieldMaxSteps is the field of the error of a task that has made all calls that it may make.
const fieldMaxSteps = "limits.max_steps"

func (t *Reading) errMaxSteps() *fault.Error {
	return fault.New(fault.QuotaExceeded, "the task made %d calls, its limit", t.Task.Submitted.MaxSteps).WithField(fieldMaxSteps)
}

// ResultOfPart returns how the task of a part has ended.
func ResultOfPart(t *statemachine.Task) PartResult {
	r := PartResult{Calls: t.Calls}
	each := t.Steps[t.Part.Step]
	switch {
	case t.State == statemachine.Done:
		r.Output = t.Output
	case each != nil && each.State == statemachine.StepFailed:
		r.Error, r.Class = each.Error, each.Class
	default:
		r.Error, r.Class = t.Error, fault.ClassChild
		r.OutOfSteps = t.Error != nil && t.Error.Code == fault.QuotaExceeded && t.Error.Field == fieldMaxSteps
	}
	return r
}
