import { Component, type ComponentChildren } from 'preact'
import { Problem } from './notice.tsx'

/** Boundary shows an error of the page in place of what could not be shown, so that the rest of the page still works. */
export class Boundary extends Component<{ children: ComponentChildren }, { problem?: unknown }> {
  static override getDerivedStateFromError(problem: unknown) { return { problem } }

  override render() {
    if (this.state.problem === undefined) return this.props.children
    return <div class="scroll"><h1>This cannot be shown</h1><Problem of={this.state.problem} /></div>
  }
}
