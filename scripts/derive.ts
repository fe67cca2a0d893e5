import ts from 'typescript';

/**
 * The synchronous form of operations. An operation is written once, as a generator that yields a
 * batch for each round trip. On a fabric whose verbs finish at once the generators are a third of
 * what a write costs, so the build turns each operation into a plain function of the fabric:
 *
 *     function* search(request): Operation<boolean>     function search($fabric, request)
 *     yield batch                                       $fabric.execute(batch)
 *     yield* locate(request)                            locate($fabric, request)
 *     run(fabric, index.search(request))                index.search(fabric, request)
 *     pool.run(index.search(request))                   index.search(pool.fabric, request)
 *
 * It goes by types: a function, method or callback that returns an `Operation` is an operation.
 * Control flow, `try` and `finally` stay as they are, so both forms post the same verbs in the same
 * batches. Code without a synchronous form ends the build with a problem; nothing is guessed.
 */
const FABRIC = '$fabric';

/** Turns the operations of a file into their synchronous form; what cannot be, goes to `problem`. */
export function synchronousForm(
  checker: ts.TypeChecker,
  problem: (node: ts.Node, text: string) => void,
): ts.TransformerFactory<ts.SourceFile> {
  return (context) => (file) => new Derivation(checker, context, problem).of(file);
}

/** Whether a file has operations of its own, or runs some: it then has two forms. */
export function touchesOperations(checker: ts.TypeChecker, file: ts.SourceFile): boolean {
  const visit = (node: ts.Node): boolean =>
    (isFunction(node) && returnsOperation(checker, node)) ||
    (ts.isCallExpression(node) && isRun(checker, node)) ||
    ts.forEachChild(node, visit) === true;
  return visit(file);
}

class Derivation {
  readonly #checker: ts.TypeChecker;
  readonly #context: ts.TransformationContext;
  readonly #problem: (node: ts.Node, text: string) => void;
  /** Whether the visited node is in the body of an operation, where the fabric is at hand. */
  #inOperation = false;
  /** Whether its `yield` is that of an operation, and not of some other generator within. */
  #yieldsBatches = false;

  constructor(
    checker: ts.TypeChecker,
    context: ts.TransformationContext,
    problem: (node: ts.Node, text: string) => void,
  ) {
    this.#checker = checker;
    this.#context = context;
    this.#problem = problem;
  }

  of(file: ts.SourceFile): ts.SourceFile {
    return this.#children(file);
  }

  readonly #visit = (node: ts.Node): ts.Node => {
    if (isFunction(node)) return this.#function(node);
    if (ts.isYieldExpression(node) && this.#yieldsBatches) return this.#yield(node);
    if (ts.isCallExpression(node)) return this.#call(node);
    return this.#children(node);
  };

  #children<T extends ts.Node>(node: T): T {
    return ts.visitEachChild(node, this.#visit, this.#context);
  }

  #function(node: Functional): ts.Node {
    const operation = returnsOperation(this.#checker, node);
    const outer = [this.#inOperation, this.#yieldsBatches] as const;
    this.#inOperation ||= operation;
    this.#yieldsBatches = operation;
    const visited = this.#children(node);
    [this.#inOperation, this.#yieldsBatches] = outer;
    if (!operation) return visited;
    this.#checkCallback(node);
    return this.#plain(visited);
  }

  /** A caller that does not know that its callback is an operation would not hand it the fabric. */
  #checkCallback(node: Functional): void {
    if (!isCallback(node)) return;
    const type = this.#checker.getContextualType(node);
    const [signature] = (type && this.#checker.getNonNullableType(type).getCallSignatures()) ?? [];
    const expected = signature?.declaration;
    const { parent } = node;
    const isArgument = ts.isCallExpression(parent) && parent.arguments.includes(node);
    if (!isArgument || (expected && /\bOperation</.test(expected.type?.getText() ?? ''))) return;
    this.#problem(node, 'an operation is handed to a function that does not take it for one');
  }

  /** The function without its asterisk, with the fabric as its first parameter. */
  #plain(node: Functional): ts.Node {
    const { factory } = this.#context;
    const fabric = factory.createParameterDeclaration(undefined, undefined, FABRIC);
    const lists = (nodes?: ts.NodeArray<ts.Node>) =>
      nodes === node.parameters ? factory.createNodeArray([fabric, ...node.parameters]) : nodes;
    const tokens = (token: ts.Node) =>
      token.kind === ts.SyntaxKind.AsteriskToken ? undefined : token;
    const same = (child: ts.Node) => child;
    const visitLists = lists as typeof ts.visitNodes;
    return ts.visitEachChild(node, same, this.#context, visitLists, tokens) as ts.Node;
  }

  #yield(node: ts.YieldExpression): ts.Node {
    const { factory } = this.#context;
    const expression = ts.visitNode(node.expression, this.#visit) as ts.Expression;
    if (node.asteriskToken) return expression;
    const fabric = factory.createIdentifier(FABRIC);
    const execute = factory.createPropertyAccessExpression(fabric, 'execute');
    return ts.setTextRange(factory.createCallExpression(execute, undefined, [expression]), node);
  }

  #call(node: ts.CallExpression): ts.Node {
    if (isRun(this.#checker, node)) return this.#run(node);
    if (!callsOperation(this.#checker, node)) return this.#children(node);
    if (!this.#inOperation)
      this.#problem(node, 'an operation is called outside of one and not run');
    if (!isConsumed(node)) this.#problem(node, 'an operation is kept for later');
    if (/\.(call|apply)$/.test(node.expression.getText())) {
      this.#problem(node, 'an operation is called by call or apply');
    }
    return this.#withFabric(node, this.#context.factory.createIdentifier(FABRIC));
  }

  #run(node: ts.CallExpression): ts.Node {
    const { expression: callee, arguments: given } = node;
    const operation = given[given.length - 1];
    const fabric = ts.isPropertyAccessExpression(callee)
      ? this.#context.factory.createPropertyAccessExpression(callee.expression, 'fabric')
      : given[0];
    if (ts.isCallExpression(operation) && callsOperation(this.#checker, operation)) {
      return this.#withFabric(operation, ts.visitNode(fabric, this.#visit) as ts.Expression);
    }
    if (!isRunner(node)) this.#problem(node, 'what is run is not the call of an operation');
    return node;
  }

  #withFabric(node: ts.CallExpression, fabric: ts.Expression): ts.Node {
    const { factory } = this.#context;
    const { expression, arguments: given } = node;
    const callee = ts.visitNode(expression, this.#visit) as ts.Expression;
    const rest = given.map((argument) => ts.visitNode(argument, this.#visit) as ts.Expression);
    const args = [fabric, ...rest];
    if (!ts.isCallChain(node)) {
      return factory.updateCallExpression(node, callee, node.typeArguments, args);
    }
    const { questionDotToken, typeArguments } = node;
    return factory.updateCallChain(node, callee, questionDotToken, typeArguments, args);
  }
}

type Functional =
  | ts.MethodDeclaration
  | ts.FunctionDeclaration
  | ts.FunctionExpression
  | ts.ArrowFunction;

function isFunction(node: ts.Node): node is Functional {
  const { isMethodDeclaration, isFunctionDeclaration, isFunctionExpression, isArrowFunction } = ts;
  return (
    isMethodDeclaration(node) ||
    isFunctionDeclaration(node) ||
    isFunctionExpression(node) ||
    isArrowFunction(node)
  );
}

/**
 * Also of a callback, and of a method of an object, that yields no batch itself: its caller takes it
 * for an operation.
 */
function returnsOperation(checker: ts.TypeChecker, node: Functional): boolean {
  const expected = expectedType(checker, node);
  const types = expected?.isUnion() ? expected.types : [expected];
  const signatures = types.flatMap((type) => type?.getCallSignatures() ?? []);
  return [checker.getSignatureFromDeclaration(node), ...signatures].some(
    (signature) => signature && isOperation(signature.getReturnType()),
  );
}

/** What the place where a function stands takes it for. */
function expectedType(checker: ts.TypeChecker, node: Functional): ts.Type | undefined {
  if (isCallback(node)) return checker.getContextualType(node);
  const { parent } = node;
  if (!ts.isMethodDeclaration(node) || !ts.isObjectLiteralExpression(parent)) return undefined;
  const property = checker.getContextualType(parent)?.getProperty(node.name.getText());
  return property && checker.getTypeOfSymbolAtLocation(property, node);
}

function isCallback(node: Functional): node is ts.ArrowFunction | ts.FunctionExpression {
  return ts.isArrowFunction(node) || ts.isFunctionExpression(node);
}

function callsOperation(checker: ts.TypeChecker, node: ts.CallExpression): boolean {
  const signature = checker.getResolvedSignature(node);
  return signature !== undefined && isOperation(signature.getReturnType());
}

/** `run(fabric, operation)`, or `pool.run(operation)`: where operations begin, outside of any other. */
function isRun(checker: ts.TypeChecker, node: ts.CallExpression): boolean {
  const { expression: callee, arguments: given } = node;
  const name = ts.isPropertyAccessExpression(callee) ? callee.name : callee;
  if (!ts.isIdentifier(name) || name.text !== 'run' || given.length === 0) return false;
  return isOperation(checker.getTypeAtLocation(given[given.length - 1]));
}

/** Whether the call is what a method `run` itself does, which only generators reach. */
function isRunner(node: ts.Node): boolean {
  const method = ts.findAncestor(node, ts.isMethodDeclaration);
  return method !== undefined && method.name.getText() === 'run';
}

function isOperation(type: ts.Type): boolean {
  if (type.isUnion()) return type.types.some(isOperation);
  if (type.aliasSymbol?.name === 'Operation') return true;
  const [yielded] = (type as ts.TypeReference).typeArguments ?? [];
  return type.symbol?.name === 'Generator' && yielded?.symbol?.name === 'Batch';
}

/** Whether an operation runs where it is called, in both forms: by `yield*`, or for the caller. */
function isConsumed(node: ts.Node): boolean {
  const { parent } = node;
  if (ts.isYieldExpression(parent)) return parent.asteriskToken !== undefined;
  if (ts.isReturnStatement(parent) || ts.isArrowFunction(parent)) return true;
  const passesOn =
    ts.isParenthesizedExpression(parent) ||
    ts.isConditionalExpression(parent) ||
    (ts.isBinaryExpression(parent) && /^(\?\?|\|\||&&)$/.test(parent.operatorToken.getText()));
  return passesOn && isConsumed(parent);
}
