export const title = "Question"; export function open() { return {}; }
