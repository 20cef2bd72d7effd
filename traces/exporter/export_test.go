package exporter

import "context"

// Step looks at the log once and sends what has ended. It returns the error of the step.
func (e *Exporter) Step(ctx context.Context) error {
	err := e.step(ctx)
	if err != nil {
		e.failed(ctx, err)
	}
	return err
}
